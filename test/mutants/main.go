// Command mutants breaks copies of the repository, each with one patch at a time, and
// requires that the test named in the patch fails. README.md has the format.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/winnpm/winnpm/test/effort"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// run plays the named patches, or all patches of the repository. The working directory is
// the root of the module.
func run(ctx context.Context, files []string) error {
	if len(files) == 0 {
		files, _ = filepath.Glob("test/mutants/*.patch") // fails for a bad pattern only
	}
	mutants, err := readMutants(files)
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	r := runner{root: ".", tmp: tmp, copies: runtime.NumCPU(), limit: 2 * time.Minute, out: os.Stdout}
	return r.play(ctx, mutants)
}

// mutant is one patch file.
type mutant struct {
	name, path string
	pkg, tests string // the tests that must fail: a package like ./pkg/ipsets, and what -run takes
}

var testLine = regexp.MustCompile(`(?m)^Test:[ \t]+(\./\S+)[ \t]+(\S+)[ \t]*$`)

// readMutants reads the headers of patch files. An error names the file and says what its
// header lacks.
func readMutants(files []string) ([]mutant, error) {
	if len(files) == 0 {
		return nil, errors.New("no *.patch in test/mutants")
	}
	var out []mutant
	for _, file := range files {
		path, err := filepath.Abs(file)
		if err != nil {
			return nil, err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		header, _, found := strings.Cut("\n"+string(content), "\n--- ")
		if !found {
			return nil, fmt.Errorf("%s: no unified diff in it", file)
		}
		lines := testLine.FindAllStringSubmatch(header, -1)
		if len(lines) != 1 {
			return nil, fmt.Errorf("%s: %d lines `Test: ./package Regexp` before the diff, want one", file, len(lines))
		}
		out = append(out, mutant{strings.TrimSuffix(filepath.Base(path), ".patch"), path, lines[0][1], lines[0][2]})
	}
	return out, nil
}

// runner plays mutants in copies of a repository, one mutant at a time in each copy.
type runner struct {
	root, tmp string
	copies    int
	limit     time.Duration // of one run of tests; a test that hangs does not count as failed
	out       io.Writer
}

// play prints one line for each mutant, and fails unless the test of every mutant passes
// without the patch and fails with it.
func (r runner) play(ctx context.Context, mutants []mutant) error {
	names := map[string][]string{}
	for _, m := range mutants {
		names[m.pkg] = append(names[m.pkg], m.tests)
	}
	var tests, breaks []func(dir string) error
	for pkg, of := range names {
		tests = append(tests, func(dir string) error {
			failed, err := r.goTest(ctx, dir, pkg, strings.Join(of, "|"))
			if err == nil && len(failed) > 0 {
				err = fmt.Errorf("%s failed", strings.Join(failed, " "))
			}
			if err != nil {
				return fmt.Errorf("%s without a patch: %w", pkg, err)
			}
			return nil
		})
	}
	for _, m := range mutants {
		breaks = append(breaks, func(dir string) error { return r.one(ctx, dir, m) })
	}
	if err := r.each(tests); err != nil {
		return err
	}
	return r.each(breaks)
}

// each runs every task in a fresh copy of the repository, and joins the errors.
func (r runner) each(tasks []func(dir string) error) error {
	free := make(chan string, r.copies)
	for i := range r.copies {
		free <- filepath.Join(r.tmp, fmt.Sprint(i), "tree")
	}
	errs := make([]error, len(tasks))
	var working sync.WaitGroup
	for i, do := range tasks {
		dir := <-free
		working.Go(func() {
			if errs[i] = r.refresh(dir); errs[i] == nil {
				errs[i] = do(dir)
			}
			free <- dir
		})
	}
	working.Wait()
	return errors.Join(errs...)
}

// refresh makes dir a copy of what git has of the repository, staged changes included, without
// what the tests of the last mutant left.
func (r runner) refresh(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	out, err := exec.Command("git", "-C", r.root, "-c", "safe.directory=*", "checkout-index", "--all", "--prefix="+dir+"/").CombinedOutput()
	if err != nil {
		return fmt.Errorf("copy the repository: %w: %s", err, out)
	}
	return nil
}

// one applies m to the copy in dir, runs its test, and prints the tests that failed.
func (r runner) one(ctx context.Context, dir string, m mutant) error {
	cmd := exec.CommandContext(ctx, "git", "apply", "--recount", m.path)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: the patch no longer applies: %s", m.name, out)
	}
	failed, err := r.goTest(ctx, dir, m.pkg, m.tests)
	if err == nil && len(failed) == 0 {
		err = errors.New("SURVIVED, the test passes")
	}
	if err != nil {
		return fmt.Errorf("%s: %s %s: %w", m.name, m.pkg, m.tests, err)
	}
	fmt.Fprintf(r.out, "ok    %-28s killed by %s %s\n", m.name, m.pkg, strings.Join(failed, " "))
	return nil
}

// resultLine is that of a top-level test.
var resultLine = regexp.MustCompile(`(?m)^--- (PASS|FAIL): (\S+)`)

// goTest runs tests and returns the names of the top-level ones that failed. It returns an
// error if the run says nothing about the code.
func (r runner) goTest(ctx context.Context, dir, pkg, names string) (failed []string, err error) {
	cmd := exec.CommandContext(ctx, "go", "test", "-v", "-count=1", "-vet=off", "-timeout", r.limit.String(), "-run", names, pkg)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), effort.Variable+"=")
	out, runErr := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	results := resultLine.FindAllSubmatch(out, -1)
	for _, m := range results {
		if string(m[1]) == "FAIL" {
			failed = append(failed, string(m[2]))
		}
	}
	switch text := string(out); {
	case strings.Contains(text, "[build failed]") || strings.Contains(text, "[setup failed]"):
		err = fmt.Errorf("does not compile: %.500s", text)
	case strings.Contains(text, "panic: test timed out"):
		err = errors.New("timed out")
	case runErr != nil && len(failed) == 0:
		err = fmt.Errorf("crashed outside of a test: %w", runErr)
	case len(results) == 0:
		err = errors.New("no test ran")
	}
	return failed, err
}

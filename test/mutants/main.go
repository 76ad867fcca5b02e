// Command mutants applies each patch to a copy of the repository, and requires that the test that the patch
// names fails. README.md describes the format.
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

// main runs the named patches, or all patches of the repository. The working directory is the root of the
// module.
func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	files := os.Args[1:]
	if len(files) == 0 {
		files, _ = filepath.Glob("test/mutants/*.patch") // fails for a bad pattern only
	}
	mutants, err := readMutants(files)
	if err == nil {
		err = runner{root: ".", limit: 2 * time.Minute, out: os.Stdout}.play(ctx, mutants)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// mutant is one patch file.
type mutant struct {
	name, patch string
	pkg, tests  string // the tests that must fail: a package like ./pkg/ipsets, and a regexp for -run
}

var testLine = regexp.MustCompile(`(?m)^Test:[ \t]+(\./\S+)[ \t]+(\S+)[ \t]*$`)

// readMutants reads patch files. It returns an error for a file with an invalid header.
func readMutants(files []string) ([]mutant, error) {
	if len(files) == 0 {
		return nil, errors.New("no *.patch in test/mutants")
	}
	var out []mutant
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		header, _, _ := strings.Cut("\n"+string(content), "\n--- ")
		lines := testLine.FindAllStringSubmatch(header, -1)
		if len(lines) != 1 {
			return nil, fmt.Errorf("%s: %d lines `Test: ./package Regexp` before the diff, want one", file, len(lines))
		}
		out = append(out, mutant{strings.TrimSuffix(filepath.Base(file), ".patch"), string(content), lines[0][1], lines[0][2]})
	}
	return out, nil
}

// runner runs mutants in copies of a repository, one mutant at a time in each copy.
type runner struct {
	root  string
	limit time.Duration // for one run of tests; a test that hangs does not count as failed
	out   io.Writer
}

// play runs mutants and prints one line for each. It fails unless the test of every mutant passes without
// the patch and fails with it.
func (r runner) play(ctx context.Context, mutants []mutant) error {
	tmp, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	tests := map[string]string{}
	for _, m := range mutants {
		tests[m.pkg] += "|" + m.tests
	}
	var intact []mutant
	for pkg, names := range tests {
		intact = append(intact, mutant{name: "without a patch", pkg: pkg, tests: names[1:]})
	}
	if err := r.each(ctx, tmp, intact); err != nil {
		return err
	}
	return r.each(ctx, tmp, mutants)
}

// each runs mutants in one copy of the repository for each core, and joins the errors.
func (r runner) each(ctx context.Context, tmp string, mutants []mutant) error {
	free := make(chan string, runtime.NumCPU())
	for i := range cap(free) {
		free <- filepath.Join(tmp, fmt.Sprint(i), "tree")
	}
	errs := make([]error, len(mutants))
	var working sync.WaitGroup
	for i, m := range mutants {
		dir := <-free
		working.Go(func() {
			if err := r.one(ctx, dir, m); err != nil {
				errs[i] = fmt.Errorf("%s %s, %s: %w", m.pkg, m.tests, m.name, err)
			}
			free <- dir
		})
	}
	working.Wait()
	return errors.Join(errs...)
}

// refresh resets dir to a copy of the repository as git has it, including staged changes, and removes files
// that the last mutant's tests left.
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

// one runs m in dir. The tests must fail with the patch, and pass if m has none.
func (r runner) one(ctx context.Context, dir string, m mutant) error {
	if err := r.refresh(dir); err != nil {
		return err
	}
	if m.patch != "" {
		cmd := exec.CommandContext(ctx, "git", "apply", "--recount")
		cmd.Dir, cmd.Env, cmd.Stdin = dir, append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir)), strings.NewReader(m.patch)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("git apply: %s", out)
		}
	}
	failed, err := r.goTest(ctx, dir, m)
	switch names := strings.Join(failed, " "); {
	case err != nil:
		return err
	case m.patch == "" && names != "":
		return fmt.Errorf("%s failed", names)
	case m.patch != "" && names == "":
		return errors.New("SURVIVED, the test passes")
	case m.patch != "":
		fmt.Fprintf(r.out, "ok    %-28s killed by %s %s\n", m.name, m.pkg, names)
	}
	return nil
}

// resultLine matches the result of a top-level test.
var resultLine = regexp.MustCompile(`(?m)^--- (PASS|FAIL): (\S+)`)

// goTest runs the tests of m and returns the names of the top-level ones that failed. It returns an error
// if the run has no result, such as a compilation error.
func (r runner) goTest(ctx context.Context, dir string, m mutant) (failed []string, err error) {
	cmd := exec.CommandContext(ctx, "go", "test", "-v", "-count=1", "-vet=off", "-timeout", r.limit.String(), "-run", m.tests, m.pkg)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), effort.Variable+"=")
	out, runErr := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	results := resultLine.FindAllSubmatch(out, -1)
	for _, result := range results {
		if string(result[1]) == "FAIL" {
			failed = append(failed, string(result[2]))
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

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/winnpm/winnpm/test/effort"
)

// runner plays mutants, one at a time in each of its copies of a repository. A copy
// stays in one place, so the build cache serves what a patch leaves alone.
type runner struct {
	tmp   string // has the copies, removed by the caller
	trees []string
	out   io.Writer
	limit time.Duration // of one test binary; a hang is no kill, as it cannot say what is wrong
}

// newRunner returns a runner with the given number of copies. A copy has what git tracks and
// what it would, so that uncommitted work is tested as it is, and is a repository of its own.
func newRunner(ctx context.Context, root string, copies int, out io.Writer) (*runner, error) {
	tmp, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return nil, err
	}
	r := &runner{tmp: tmp, out: out, limit: 2 * time.Minute}
	for i := range copies {
		dir := filepath.Join(tmp, strconv.Itoa(i), "tree")
		r.trees = append(r.trees, dir)
		// The owner of the clone may be another user than the one CI runs as. A tracked file may be deleted.
		if _, err := command(ctx, root, "sh", "-c", `mkdir -p "$0" && git -c safe.directory=* ls-files -z --cached --others --exclude-standard |
			xargs -0 sh -c 'for f; do test ! -e "$f" || cp --parents -P "$f" "$0"; done' "$0" &&
			cd "$0" && git init -q && git add -fA && git -c user.name=mutants -c user.email=mutants@localhost commit -qm copy`, dir); err != nil {
			return nil, errors.Join(err, os.RemoveAll(tmp))
		}
	}
	return r, nil
}

// play plays all mutants, prints a line for each as it ends and a sum, and fails unless
// every one was killed by its test.
func (r *runner) play(ctx context.Context, mutants []mutant) error {
	start := time.Now()
	runs := runsOf(mutants)
	harmed := r.each(len(runs), func(dir string, i int) (string, error) {
		failed, err := r.goTest(ctx, dir, runs[i])
		if err == nil && len(failed) > 0 {
			err = fmt.Errorf("%s failed", strings.Join(failed, " "))
		}
		if err != nil {
			return fmt.Sprintf("FAIL  %s %s without any mutant: %v", runs[i].pkg, runs[i].names, err), err
		}
		return "", nil
	})
	if harmed > 0 { // what a test that fails anyway says of a mutant proves nothing
		return fmt.Errorf("%d of %d runs fail without any mutant", harmed, len(runs))
	}
	fmt.Fprintf(r.out, "mutants: without any, the named tests pass (%d runs)\n", len(runs))
	failures := r.each(len(mutants), func(dir string, i int) (string, error) {
		m, begin := mutants[i], time.Now()
		failed, err := r.one(ctx, dir, m)
		took := time.Since(begin).Seconds()
		if err != nil {
			return fmt.Sprintf("FAIL  %-28s %s %s: %v (%.1fs)", m.name, m.test.pkg, m.test.names, err, took), err
		}
		return fmt.Sprintf("ok    %-28s killed by %s %s (%.1fs)", m.name, m.test.pkg, strings.Join(failed, " "), took), nil
	})
	fmt.Fprintf(r.out, "mutants: %d passed, %d failed in %.0fs\n", len(mutants)-failures, failures, time.Since(start).Seconds())
	if failures > 0 {
		return errors.Join(ctx.Err(), fmt.Errorf("%d of %d mutants were not killed by their test", failures, len(mutants)))
	}
	return nil
}

// each calls do for 0 to n-1, in every copy at once, prints what it returns, and returns how
// many failed.
func (r *runner) each(n int, do func(dir string, i int) (line string, err error)) (failures int) {
	next := make(chan int)
	var mu sync.Mutex // of failures and out
	var working sync.WaitGroup
	for _, dir := range r.trees {
		working.Go(func() {
			for i := range next {
				line, err := do(dir, i)
				mu.Lock()
				if err != nil {
					failures++
				}
				if line != "" {
					fmt.Fprintln(r.out, line)
				}
				mu.Unlock()
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	working.Wait()
	return failures
}

// runsOf returns the fewest runs that include every named test: one for each package,
// as linking its tests takes longer than running them, and one for each name with a
// subtest, which cannot be joined with other names.
func runsOf(mutants []mutant) []test {
	var runs []test
	seen, at := map[test]bool{}, map[string]int{} // at: the run of a package
	for _, m := range mutants {
		if seen[m.test] {
			continue
		}
		seen[m.test] = true
		i, together := at[m.test.pkg]
		switch {
		case strings.Contains(m.test.names, "/"):
			runs = append(runs, m.test)
		case together:
			runs[i].names += "|" + m.test.names
		default:
			at[m.test.pkg] = len(runs)
			runs = append(runs, m.test)
		}
	}
	return runs
}

// one applies m to a copy, runs its test and restores the copy, without what tests leave
// behind: a saved counterexample of one mutant must not kill the next. A nil error means killed.
func (r *runner) one(ctx context.Context, dir string, m mutant) (failed []string, err error) {
	defer func() {
		_, restored := command(ctx, dir, "sh", "-c", "git reset -q --hard && git clean -qfdx")
		err = errors.Join(err, restored)
	}()
	if _, err := command(ctx, dir, "git", "apply", "--recount", m.path); err != nil {
		return nil, fmt.Errorf("the patch no longer applies: %w", err)
	}
	failed, err = r.goTest(ctx, dir, m.test)
	if err == nil && len(failed) == 0 {
		err = errors.New("SURVIVED, the test passes")
	}
	return failed, err
}

// goTest runs the named tests in the module at dir and returns the top-level tests that failed.
// The error says why the run tells nothing about the code.
func (r *runner) goTest(ctx context.Context, dir string, t test) (failed []string, err error) {
	cmd := exec.CommandContext(ctx, "go", "test", "-json", "-count=1", "-vet=off", "-timeout", r.limit.String(), "-run", t.names, t.pkg)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), effort.Variable+"="+string(effort.Quick))
	stream, err := cmd.Output()
	// A failing test exits with an error too; the events tell which it was.
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		return nil, errors.Join(ctx.Err(), err)
	}
	var output strings.Builder
	ran, broken := 0, ""
	for line := range strings.Lines(string(stream)) {
		var event struct{ Action, Test, Output, FailedBuild string }
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			return nil, fmt.Errorf("go test -json wrote %q: %w", line, err)
		}
		output.WriteString(event.Output)
		switch top := event.Test != "" && !strings.Contains(event.Test, "/"); {
		case event.FailedBuild != "":
			broken = "does not compile"
		case strings.HasPrefix(event.Output, "panic: test timed out"):
			broken = "timed out"
		case event.Action == "fail" && event.Test == "" && len(failed) == 0 && broken == "":
			broken = "crashed outside of a test"
		case top && event.Action == "pass":
			ran++
		case top && event.Action == "fail":
			ran++
			failed = append(failed, event.Test)
		}
	}
	if broken == "" && ran == 0 {
		broken = "no test ran"
	}
	if broken != "" {
		return nil, fmt.Errorf("%s: %s", broken, firstLines(output.String(), 3))
	}
	return failed, nil
}

// command runs a program in dir and returns what it printed; the error carries the first lines
// it complained with.
func command(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", name, err, firstLines(stderr.String(), 2))
	}
	return string(out), nil
}

// firstLines shortens program output for a report of one line.
func firstLines(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[:min(n, len(lines))], " | ")
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// runner plays mutants, one at a time in each of its copies of a repository. A copy
// stays in one place, so the build cache serves what a patch leaves alone.
type runner struct {
	tmp   string // has the copies, removed by the caller
	trees []tree
	out   io.Writer
	limit time.Duration // of one test binary
}

// newRunner returns a runner with the given number of copies. It lists what a copy
// consists of: what git tracks and what it would, so that uncommitted work is tested
// as it is.
func newRunner(ctx context.Context, root string, copies int, out io.Writer) (*runner, error) {
	// The owner of the clone may be another user than the one CI runs as.
	list, err := git(ctx, root, "-c", "safe.directory=*",
		"ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return nil, err
	}
	tmp, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return nil, err
	}
	files := strings.FieldsFunc(list, func(r rune) bool { return r == 0 })
	r := &runner{tmp: tmp, out: out, limit: timeout}
	for i := range copies {
		r.trees = append(r.trees, tree{root: root, files: files, dir: filepath.Join(tmp, strconv.Itoa(i), "tree")})
	}
	return r, nil
}

// play plays all mutants, prints a line for each as it ends and a sum, and fails unless
// every one was killed by its test.
func (r *runner) play(ctx context.Context, mutants []mutant) error {
	start := time.Now()
	if err := r.unharmed(ctx, mutants); err != nil {
		return err
	}
	failures := 0
	var mu sync.Mutex // of failures and out
	r.each(len(mutants), func(in tree, i int) {
		if ctx.Err() != nil {
			return
		}
		m, begin := mutants[i], time.Now()
		verdict, err := r.one(ctx, in, m)
		took := time.Since(begin).Seconds()
		mu.Lock()
		defer mu.Unlock()
		switch {
		case ctx.Err() != nil:
		case err != nil:
			failures++
			fmt.Fprintf(r.out, "FAIL  %-28s %s %s: %v (%.1fs)\n", m.name, m.test.pkg, m.test.names, err, took)
		default:
			fmt.Fprintf(r.out, "ok    %-28s killed by %s %s (%.1fs)\n", m.name, m.test.pkg, strings.Join(verdict.failed, " "), took)
		}
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	fmt.Fprintf(r.out, "mutants: %d passed, %d failed in %.0fs\n", len(mutants)-failures, failures, time.Since(start).Seconds())
	if failures > 0 {
		return fmt.Errorf("%d of %d mutants were not killed by their test", failures, len(mutants))
	}
	return nil
}

// each calls do for 0 to n-1, in every copy at once, and returns when all are done.
func (r *runner) each(n int, do func(in tree, i int)) {
	var next atomic.Int64
	var working sync.WaitGroup
	for _, in := range r.trees {
		working.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				do(in, int(i))
			}
		})
	}
	working.Wait()
}

// unharmed checks that every named test passes on the copies as they are; without
// that its failure would prove nothing.
func (r *runner) unharmed(ctx context.Context, mutants []mutant) error {
	for _, in := range r.trees {
		if err := in.refresh(); err != nil {
			return err
		}
	}
	runs := runsOf(mutants)
	failed := make([]error, len(runs))
	var mu sync.Mutex // of out
	r.each(len(runs), func(in tree, i int) {
		t := runs[i]
		v, err := goTest(ctx, in.dir, t, r.limit)
		if v.broken == "" && len(v.failed) > 0 {
			v.broken = strings.Join(v.failed, " ") + " failed"
		}
		switch {
		case err != nil:
			failed[i] = err
		case v.broken != "":
			mu.Lock()
			defer mu.Unlock()
			fmt.Fprint(r.out, v.output)
			failed[i] = fmt.Errorf("%s %s without any mutant: %s", t.pkg, t.names, v.broken)
		}
	})
	if err := errors.Join(failed...); err != nil {
		return err
	}
	fmt.Fprintf(r.out, "mutants: without any, the named tests pass (%d runs)\n", len(runs))
	return nil
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

// one applies m to a copy, made fresh, and runs its test. A nil error means killed.
func (r *runner) one(ctx context.Context, in tree, m mutant) (verdict, error) {
	if err := in.refresh(); err != nil {
		return verdict{}, err
	}
	if _, err := git(ctx, in.dir, "apply", "--recount", m.path); err != nil {
		return verdict{}, fmt.Errorf("the patch no longer applies: %w", err)
	}
	v, err := goTest(ctx, in.dir, m.test, r.limit)
	switch {
	case err != nil:
		return v, err
	case v.broken != "":
		return v, fmt.Errorf("no verdict, the mutant %s: %s", v.broken, firstLines(v.output, 3))
	case len(v.failed) == 0:
		return v, errors.New("SURVIVED, the test passes")
	}
	return v, nil
}

// git runs git in dir and returns what it printed; the error carries the first lines it
// complained with.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git: %w: %s", err, firstLines(stderr.String(), 2))
	}
	return string(out), nil
}

// firstLines shortens program output for a report of one line.
func firstLines(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[:min(n, len(lines))], " | ")
}

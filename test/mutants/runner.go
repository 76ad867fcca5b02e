package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// runner plays mutants, one at a time, on a copy of a repository. The copy
// stays in one place, so the build cache serves what a patch leaves alone.
type runner struct {
	root  string
	tmp   string   // removed by the caller
	files []string // of root, relative
	out   io.Writer
	limit time.Duration // of one test binary
}

// newRunner lists what the copy consists of: what git tracks and what it
// would, so that uncommitted work is tested as it is.
func newRunner(ctx context.Context, root string, out io.Writer) (*runner, error) {
	// The owner of the clone may be another user than the one CI runs as.
	list, err := command(ctx, root, "git", "-c", "safe.directory=*",
		"ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return nil, err
	}
	tmp, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return nil, err
	}
	files := strings.FieldsFunc(list, func(r rune) bool { return r == 0 })
	return &runner{root: root, tmp: tmp, files: files, out: out, limit: timeout}, nil
}

// play plays all mutants, prints a line for each and a sum, and fails unless
// every one was killed by its test.
func (r *runner) play(ctx context.Context, mutants []mutant) error {
	start := time.Now()
	if err := r.unharmed(ctx, mutants); err != nil {
		return err
	}
	failures := 0
	for _, m := range mutants {
		begin := time.Now()
		verdict, err := r.one(ctx, m)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		took := time.Since(begin).Seconds()
		if err != nil {
			failures++
			fmt.Fprintf(r.out, "FAIL  %-28s %s %s: %v (%.1fs)\n", m.name, m.test.pkg, m.test.names, err, took)
			continue
		}
		fmt.Fprintf(r.out, "ok    %-28s killed by %s %s%s (%.1fs)\n",
			m.name, m.test.pkg, strings.Join(verdict.failed, " "), map[bool]string{true: ", deep"}[m.test.deep], took)
	}
	fmt.Fprintf(r.out, "mutants: %d passed, %d failed in %.0fs\n", len(mutants)-failures, failures, time.Since(start).Seconds())
	if failures > 0 {
		return fmt.Errorf("%d of %d mutants were not killed by their test", failures, len(mutants))
	}
	return nil
}

// unharmed checks that every named test passes on the copy as it is; without
// that its failure would prove nothing.
func (r *runner) unharmed(ctx context.Context, mutants []mutant) error {
	if err := r.refresh(); err != nil {
		return err
	}
	runs := runsOf(mutants)
	for _, t := range runs {
		v, err := goTest(ctx, r.copy(), t, r.limit)
		if err != nil {
			return err
		}
		if v.broken == "" && len(v.failed) > 0 {
			v.broken = strings.Join(v.failed, " ") + " failed"
		}
		if v.broken != "" {
			fmt.Fprint(r.out, v.output)
			return fmt.Errorf("%s %s without any mutant: %s", t.pkg, t.names, v.broken)
		}
	}
	fmt.Fprintf(r.out, "mutants: without any, the named tests pass (%d runs)\n", len(runs))
	return nil
}

// runsOf returns the fewest runs that have every named test: one for each package and
// effort, as to build and link it takes longer than its tests, and one for each name of
// a subtest, which does not go together with others.
func runsOf(mutants []mutant) []test {
	var runs []test
	seen, at := map[test]bool{}, map[test]int{} // at: the run of a package and effort
	for _, m := range mutants {
		if seen[m.test] {
			continue
		}
		seen[m.test] = true
		place := test{pkg: m.test.pkg, deep: m.test.deep}
		i, together := at[place]
		switch {
		case strings.Contains(m.test.names, "/"):
			runs = append(runs, m.test)
		case together:
			runs[i].names += "|" + m.test.names
		default:
			at[place] = len(runs)
			runs = append(runs, m.test)
		}
	}
	return runs
}

// one applies m to a fresh copy and runs its test. A nil error means killed.
func (r *runner) one(ctx context.Context, m mutant) (verdict, error) {
	if err := r.refresh(); err != nil {
		return verdict{}, err
	}
	if _, err := command(ctx, r.copy(), "git", "apply", "--recount", m.path); err != nil {
		return verdict{}, fmt.Errorf("the patch no longer applies: %w", err)
	}
	v, err := goTest(ctx, r.copy(), m.test, r.limit)
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

// copy is where the copy is; a folder of its own, so that git finds no
// repository around it.
func (r *runner) copy() string { return filepath.Join(r.tmp, "tree") }

// refresh makes the copy equal to the repository again, without what tests
// leave behind: a saved counterexample of one mutant must not kill the next.
func (r *runner) refresh() error {
	if err := os.RemoveAll(r.copy()); err != nil {
		return err
	}
	for _, file := range r.files {
		from, to := filepath.Join(r.root, file), filepath.Join(r.copy(), file)
		info, err := os.Lstat(from)
		if errors.Is(err, os.ErrNotExist) {
			continue // tracked, but deleted in the work tree
		}
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			continue
		}
		content, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, content, info.Mode().Perm()); err != nil {
			return err
		}
	}
	return nil
}

// command runs one program in dir and returns what it printed; the error
// carries the first lines it complained with.
func command(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
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

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// sample is a module with one promise and tests of every quality.
var sample = map[string]string{
	"go.mod": "module sample\n\ngo 1.26.0\n",
	"limit/limit.go": `package limit

// Clamp keeps n at or below 10.
func Clamp(n int) int {
	if n > 10 {
		return 10
	}
	return n
}
`,
	"limit/limit_test.go": `package limit

import "testing"

func TestClamp(t *testing.T) {
	t.Run("big", func(t *testing.T) {
		if got := Clamp(11); got != 10 {
			t.Errorf("Clamp(11) = %d", got)
		}
	})
}

func TestSmall(t *testing.T) {
	if got := Clamp(3); got != 3 {
		t.Errorf("Clamp(3) = %d", got)
	}
}

func TestElsewhere(t *testing.T) {
	done := make(chan struct{})
	go func() { Clamp(11); close(done) }()
	<-done
}

func TestSkipped(t *testing.T) { t.Skip() }

func TestRed(t *testing.T) { t.Error("always") }
`,
}

// patch replaces `return 10` in the sample.
func patch(replacement string) string {
	return `--- a/limit/limit.go
+++ b/limit/limit.go
@@ -5,3 +5,3 @@
 	if n > 10 {
-		return 10
+		` + replacement + `
 	}
`
}

func TestPlay(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		test, diff string
		limit      time.Duration
		out, err   string // parts of
	}{
		"killed": {
			test: "TestClamp", diff: patch("return n"),
			out: "killed by ./limit TestClamp",
		},
		"a panic in the test kills": {
			test: "TestClamp", diff: patch(`panic("BUG: too big")`),
			out: "killed by ./limit TestClamp",
		},
		"survives": {
			test: "TestSmall", diff: patch("return n"),
			out: "SURVIVED", err: "1 of 1 mutants",
		},
		"does not compile": {
			test: "TestClamp", diff: patch("return many"),
			out: "does not compile", err: "1 of 1 mutants",
		},
		"hangs": {
			test: "TestClamp", diff: patch("select {}"), limit: 3 * time.Second,
			out: "timed out", err: "1 of 1 mutants",
		},
		"crashes elsewhere": {
			test: "TestElsewhere", diff: patch("panic(1)"),
			out: "crashed outside of a test", err: "1 of 1 mutants",
		},
		"no longer applies": {
			test: "TestClamp", diff: strings.Replace(patch("return n"), "n > 10", "n > 11", 1),
			out: "no longer applies", err: "1 of 1 mutants",
		},
		"fails without mutant": {
			test: "TestRed", diff: patch("return n"),
			out: "without any mutant: TestRed failed", err: "without any mutant",
		},
		"skipped without mutant": {
			test: "TestSkipped", diff: patch("return n"),
			out: "no test ran", err: "without any mutant",
		},
		"no such test": {
			test: "TestClamped", diff: patch("return n"),
			out: "no test ran", err: "without any mutant",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "broken.patch")
			write(t, file, "What it breaks.\nTest: ./limit ^"+tt.test+"$\n"+tt.diff)
			mutants, err := readMutants([]string{file})
			require.NoError(t, err)

			var out strings.Builder
			r, err := newRunner(t.Context(), repository(t), 1, &out)
			require.NoError(t, err)
			defer os.RemoveAll(r.tmp)
			if tt.limit > 0 {
				r.limit = tt.limit
			}
			err = r.play(t.Context(), mutants)
			if tt.err == "" {
				require.NoError(t, err, out.String())
				require.Contains(t, out.String(), "1 passed, 0 failed")
			} else {
				require.ErrorContains(t, err, tt.err)
			}
			require.Contains(t, out.String(), tt.out)
		})
	}
}

// Copies share nothing but the repository: each mutant is played once, in one of them.
func TestPlayInCopies(t *testing.T) {
	t.Parallel()
	root, dir := repository(t), t.TempDir()
	var files []string
	for name, replacement := range map[string]string{"more": "return n", "less": "return 9", "none": "return 0", "equal": "return 5 + 5"} {
		file := filepath.Join(dir, name+".patch")
		write(t, file, "What it breaks.\nTest: ./limit ^TestClamp$\n"+patch(replacement))
		files = append(files, file)
	}
	mutants, err := readMutants(files)
	require.NoError(t, err)
	var out strings.Builder
	r, err := newRunner(t.Context(), root, 3, &out)
	require.NoError(t, err)
	defer os.RemoveAll(r.tmp)

	require.ErrorContains(t, r.play(t.Context(), mutants), "1 of 4 mutants")
	require.Contains(t, out.String(), "3 passed, 1 failed")
	for _, name := range []string{"ok    more ", "ok    less ", "ok    none ", "FAIL  equal "} {
		require.Equal(t, 1, strings.Count(out.String(), name), out.String())
	}
}

func TestReadMutantsRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ content, err string }{
		"no diff":      {"Test: ./limit TestClamp\n", "1 lines `Test:"},
		"no test":      {"Breaks it.\n" + patch("return n"), "0 lines `Test:"},
		"two tests":    {"Test: ./a A\nTest: ./b B\n" + patch("return n"), "2 lines `Test:"},
		"bad regexp":   {"Test: ./limit Test(\n" + patch("return n"), "missing closing"},
		"test in diff": {patch("return n") + "Test: ./limit TestClamp\n", "0 lines `Test:"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "broken.patch")
			write(t, file, tt.content)
			_, err := readMutants([]string{file})
			require.ErrorContains(t, err, tt.err)
			require.ErrorContains(t, err, "broken.patch")
		})
	}
}

// repository writes the sample into a new git work tree.
func repository(t *testing.T) string {
	root := t.TempDir()
	for name, content := range sample {
		write(t, filepath.Join(root, name), content)
	}
	write(t, filepath.Join(root, ".gitignore"), "*.out\n")
	write(t, filepath.Join(root, "ignored.out"), "")
	_, err := command(t.Context(), root, "git", "init", "-q")
	require.NoError(t, err)
	return root
}

func write(t *testing.T, file, content string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
}

// TestRunsOf checks that one run of a package has all of its tests, except names with a subtest.
func TestRunsOf(t *testing.T) {
	of := func(pkg, names string) mutant { return mutant{test: test{pkg: pkg, names: names}} }
	require.Equal(t, []test{{"./a", "^TestX$|^TestY$"}, {"./b", "^TestX$"}, {"./a", "^TestZ$/^one$"}, {"./a", "^TestZ$/^two$"}},
		runsOf([]mutant{
			of("./a", "^TestX$"), of("./b", "^TestX$"), of("./a", "^TestZ$/^one$"), of("./a", "^TestX$"),
			of("./a", "^TestZ$/^two$"), of("./a", "^TestY$"), of("./a", "^TestZ$/^one$"),
		}))
}

package main

import (
	"os"
	"os/exec"
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
		err        string // a part of it; none if the mutant is killed
	}{
		"killed": {
			test: "TestClamp", diff: patch("return n"),
		},
		"a panic in the test kills": {
			test: "TestClamp", diff: patch(`panic("BUG: too big")`),
		},
		"survives": {
			test: "TestSmall", diff: patch("return n"),
			err: "SURVIVED",
		},
		"does not compile": {
			test: "TestClamp", diff: patch("return many"),
			err: "does not compile",
		},
		"hangs": {
			test: "TestClamp", diff: patch("select {}"), limit: 3 * time.Second,
			err: "timed out",
		},
		"crashes elsewhere": {
			test: "TestElsewhere", diff: patch("panic(1)"),
			err: "crashed outside of a test",
		},
		"no longer applies": {
			test: "TestClamp", diff: strings.Replace(patch("return n"), "n > 10", "n > 11", 1),
			err: "git apply: error: patch failed",
		},
		"no diff": {
			test: "TestClamp", diff: "return n\n",
			err: "git apply: error: No valid patches in input",
		},
		"fails without mutant": {
			test: "TestRed", diff: patch("return n"),
			err: "without a patch: TestRed failed",
		},
		"skipped without mutant": {
			test: "TestSkipped", diff: patch("return n"),
			err: "without a patch: no test ran",
		},
		"no such test": {
			test: "TestClamped", diff: patch("return n"),
			err: "without a patch: no test ran",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := repository(t)
			file := filepath.Join(t.TempDir(), "broken.patch")
			write(t, file, "What it breaks.\nTest: ./limit ^"+tt.test+"$\n"+tt.diff)
			mutants, err := readMutants([]string{file})
			require.NoError(t, err)

			var out strings.Builder
			r := runner{root: root, limit: 2 * time.Minute, out: &out}
			if tt.limit > 0 {
				r.limit = tt.limit
			}
			err = r.play(t.Context(), mutants)
			if tt.err == "" {
				require.NoError(t, err)
				require.Equal(t, "ok    broken                       killed by ./limit TestClamp\n", out.String())
			} else {
				require.ErrorContains(t, err, tt.err)
			}
		})
	}
}

// TestPlayRestores checks that a mutant does not see what the one before it left behind.
func TestPlayRestores(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "tree")
	r := runner{root: repository(t)}
	require.NoError(t, r.refresh(dir))
	write(t, filepath.Join(dir, "limit", "limit.go"), "package other\n")
	write(t, filepath.Join(dir, "limit", "testdata", "left.fail"), "seed\n")
	require.NoError(t, r.refresh(dir))

	content, err := os.ReadFile(filepath.Join(dir, "limit", "limit.go"))
	require.NoError(t, err)
	require.Equal(t, sample["limit/limit.go"], string(content))
	require.NoDirExists(t, filepath.Join(dir, "limit", "testdata"))
	require.NoFileExists(t, filepath.Join(dir, "ignored.out"), "ignored files are not copied")
}

func TestReadMutantsRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ content, err string }{
		"no test":      {"Breaks it.\n" + patch("return n"), "0 lines `Test:"},
		"two tests":    {"Test: ./a A\nTest: ./b B\n" + patch("return n"), "2 lines `Test:"},
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
	require.NoError(t, exec.Command("git", "init", "-q", root).Run())
	require.NoError(t, exec.Command("git", "-C", root, "add", "--all").Run())
	return root
}

func write(t *testing.T, file, content string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
}

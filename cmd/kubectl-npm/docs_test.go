package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write what commands print into the documents")

// told are the documents whose blocks "$ kubectl npm ..." this program printed.
var told = []string{"README.md", "docs/plan.md", "docs/troubleshooting.md"}

// inDocument is a command, and what the document says that it prints:
// up to the next command or the end of the block. A bundle has the time in its name.
var inDocument = regexp.MustCompile("(?m)^\\$ kubectl npm ((?:plan|replay|simulate|trace) .*)\n((?:[^$`\n].*\n|\n)*)")

// TestOutputInDocuments: what documents show is what the program prints.
func TestOutputInDocuments(t *testing.T) {
	repo, err := filepath.Abs("../..")
	require.NoError(t, err)
	for _, name := range told {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(repo, name)
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			t.Chdir(reader(t, repo))
			commands := inDocument.FindAllStringSubmatch(string(text), -1)
			require.NotEmpty(t, commands)
			for _, c := range commands {
				printed := "$ kubectl npm " + c[1] + "\n" + printedBy(t, c[1])
				if *update {
					text = bytes.Replace(text, []byte(c[0]), []byte(printed), 1)
					continue
				}
				require.Equal(t, printed, c[0], "make update writes it anew")
			}
			if *update {
				require.NoError(t, os.WriteFile(path, text, 0o600))
			}
		})
	}
}

// reader returns a folder with the examples, as a reader of the document has it.
func reader(t *testing.T, repo string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Symlink(filepath.Join(repo, "examples"), filepath.Join(dir, "examples")))
	return dir
}

// printedBy runs a command line, and returns what it prints.
func printedBy(t *testing.T, line string) string {
	t.Helper()
	code, stdout, stderr := command(t, "", words(line)...)
	require.NotContains(t, []int{exitNoDump, 2}, code, "kubectl npm %s: %s", line, stderr)
	return stdout + stderr
}

// words splits a command line as a shell would, with quotes and nothing else.
func words(line string) []string {
	args := []string{} // nil would mean those of the process
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			args = append(args, part)
			continue
		}
		args = append(args, strings.Fields(part)...)
	}
	return args
}

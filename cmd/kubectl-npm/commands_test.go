package main

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/pkg/state"
)

// dumps are the files that scripts have besides those of their archives: dumps of an agent that has the shop.
var dumps = map[string]func(*state.Dump){
	"dump.json": same,
	"unknown.json": func(d *state.Dump) {
		for i := range d.Endpoints {
			d.Endpoints[i].Known = false
		}
	},
	"tiered.json": func(d *state.Dump) {
		d.ClusterPolicies = []state.ClusterPolicy{{Name: "no-toolbox", Spec: &v1alpha2.ClusterNetworkPolicySpec{
			Tier: v1alpha2.AdminTier, Priority: 1, Subject: v1alpha2.ClusterNetworkPolicySubject{Namespaces: &metav1.LabelSelector{}},
		}}}
	},
}

// step is a command line of a script with what it prints.
type step struct {
	args   []string
	stdin  string // a file
	code   int
	stdout []string // parts of it
	stderr []string // its lines
}

// TestCommands plays the scripts of testdata, each in a folder with the files of its archive, dumps and the examples:
//
//	$ ARGS [< FILE]  runs kubectl npm, with FILE as standard input
//	exit N           it ends with exit code N, and not with 0
//	> TEXT           it prints TEXT among others; \n is the end of a line, also of the one before the first
//	! TEXT           a line of standard error; with ... at its end, how it begins
//
// Without a line for it, nothing is printed there. An answer of trace is the same when the manifests come from
// standard input.
func TestCommands(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	repo, err := filepath.Abs("../..")
	require.NoError(t, err)
	written := map[string]string{}
	for name, change := range dumps {
		written[name] = savedDump(t, change)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		require.NoError(t, err)
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Chdir(reader(t, repo))
			for name, dump := range written {
				require.NoError(t, os.Symlink(dump, name))
			}
			for _, f := range archive.Files {
				require.NoError(t, os.MkdirAll(filepath.Dir(f.Name), 0o700))
				require.NoError(t, os.WriteFile(f.Name, f.Data, 0o600))
			}
			for _, s := range steps(t, string(archive.Comment)) {
				t.Run(strings.Join(s.args, " "), func(t *testing.T) {
					s.play(t)
					if at := slices.Index(s.args, "--manifests") + 1; at > 0 && s.args[0] == "trace" && s.args[at] == "m.yaml" {
						s.args[at], s.stdin = "-", "m.yaml"
						s.play(t)
					}
				})
			}
		})
	}
}

// steps reads a script.
func steps(t *testing.T, script string) (all []*step) {
	t.Helper()
	for line := range strings.Lines(script) {
		mark, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch mark {
		case "", "#":
		case "$":
			text, stdin, _ := strings.Cut(text, " < ")
			all = append(all, &step{args: words(text), stdin: stdin})
		case "exit":
			code, err := strconv.Atoi(text)
			require.NoError(t, err)
			all[len(all)-1].code = code
		case ">":
			s := all[len(all)-1]
			s.stdout = append(s.stdout, strings.ReplaceAll(text, `\n`, "\n"))
		case "!":
			s := all[len(all)-1]
			s.stderr = append(s.stderr, text)
		default:
			require.FailNow(t, "no line of a script: "+line)
		}
	}
	require.NotEmpty(t, all)
	return all
}

func (s *step) play(t *testing.T) {
	t.Helper()
	stdin := ""
	if s.stdin != "" {
		text, err := os.ReadFile(s.stdin)
		require.NoError(t, err)
		stdin = string(text)
	}
	code, stdout, stderr := command(t, stdin, s.args...)
	require.Equal(t, s.code, code, stdout+stderr)
	lines := strings.SplitAfter(stderr, "\n")
	require.Len(t, lines, len(s.stderr)+1, stderr)
	for i, want := range s.stderr {
		if start, open := strings.CutSuffix(want, "..."); open {
			require.True(t, strings.HasPrefix(lines[i], start), stderr)
			continue
		}
		require.Equal(t, want+"\n", lines[i])
	}
	require.Equal(t, len(s.stdout) == 0, stdout == "", stdout)
	for _, part := range s.stdout {
		require.Contains(t, "\n"+stdout, part)
	}
}

package winnpm_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every rule has to refuse something, or it guards nothing.
func TestFileRules(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		rule, path, content string
		want                []string
	}{
		"long":   {"lines", "a.go", "package a\n" + strings.Repeat("\n", maxLines), []string{"501 lines, split it (at most 500)"}},
		"fits":   {"lines", "a.go", "package a\n" + strings.Repeat("\n", maxLines-1), nil},
		"large":  {"functions", "a.go", "package a\nfunc f() {" + strings.Repeat("\n", maxFunctionLines+2) + "}\n", []string{"f has 61 lines, take it apart (at most 60)"}},
		"small":  {"functions", "a.go", "package a\nfunc f() {" + strings.Repeat("\n", maxFunctionLines+1) + "}\n", nil},
		"story":  {"functions", "a_test.go", "package a\nfunc f() {" + strings.Repeat("\n", 2*maxFunctionLines) + "}\n", nil},
		"sleep":  {"sleep", "a_test.go", "package a\nimport \"time\"\nfunc f() { time.Sleep(1) }\n", []string{"time.Sleep in a test, use testing/synctest or a channel"}},
		"bubble": {"sleep", "a_test.go", "package a\nimport (\"testing/synctest\"; \"time\")\nfunc f() { time.Sleep(1) }\n", nil},
		"tagged": {"hcsshim", "test/windows/a_windows_test.go", "package a\nimport _ \"" + hcsshim + "/hcn\"\n", nil},
		"wire":   {"hcsshim", "pkg/hns/hcsadapter/a_windows_test.go", "package a\nimport _ \"" + hcsshim + "/hcn\"\n", nil},
		"shim":   {"hcsshim", "pkg/hns/hcsadapter/shim/a_windows.go", "package a\nimport _ \"" + hcsshim + "/hcn\"\n", nil},
		"no tag": {"hcsshim", "test/windows/a_test.go", "package a\nimport _ \"" + hcsshim + "/hcn\"\n",
			[]string{"imports hcsshim, which belongs into pkg/hns/hcsadapter/shim, and into *_windows_test.go of test/windows and of the adapter"}},
		"elsewhere": {"hcsshim", "pkg/hns/hcsadapter/a_windows.go", "package a\nimport _ \"" + hcsshim + "/hcn\"\n",
			[]string{"imports hcsshim, which belongs into pkg/hns/hcsadapter/shim, and into *_windows_test.go of test/windows and of the adapter"}},
		"impure": {"pure", "pkg/ipsets/a.go", "package a\nimport (\"os\"; \"time\")\nfunc f() { go f(); time.Now() }\n",
			[]string{"imports os in a pure package", "starts a goroutine in a pure package", "reads the clock in a pure package"}},
		"core":     {"pure", "pkg/dataplane/a.go", "package a\nimport (\"context\"; \"sync\")\nvar _ context.Context\nvar _ sync.Mutex\n", []string{"imports context in a pure package", "imports sync in a pure package"}},
		"shell":    {"pure", "pkg/dataplane/dataplane.go", "package a\nimport \"context\"\nvar _ context.Context\n", nil},
		"not pure": {"pure", "pkg/hns/hnssim/a.go", "package a\nimport \"sync\"\nfunc f() { go f() }\n", nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := parse(tt.path, tt.content)
			require.NoError(t, err)
			require.Equal(t, tt.want, fileRules[tt.rule](s))
		})
	}
}

func TestPackageComments(t *testing.T) {
	t.Parallel()
	files := parseAll(t, map[string]string{
		"one/a.go": "// Package one is.\npackage one\n", "one/a_test.go": "// Package one is tested.\npackage one\n",
		"none/a.go": "package none\n", "none/a_test.go": "// Package none is.\npackage none\n",
		"two/a.go": "// Package two is.\npackage two\n", "two/b.go": "// Package two is, too.\npackage two\n",
		"tests/a_test.go": "// Package tests is.\npackage tests\n",
		"far/a.go":        "// Package far is.\n\npackage far\n",
	})
	require.Equal(t, []string{
		"far: 0 package comments, want one",
		"none: 0 package comments, want one",
		"two: 2 package comments, want one",
	}, packageComments(files))
}

func TestMissingScenarios(t *testing.T) {
	t.Parallel()
	var tests strings.Builder
	for _, id := range scenarios {
		if id != "C1" { // C10 must not stand in for it
			tests.WriteString("func TestScenario_" + id + "_Holds() {}\n")
		}
	}
	files := parseAll(t, map[string]string{
		"a_test.go": "package a\n" + tests.String() + "func TestScenario_D10_Early() {}\nfunc TestScenario_Z9_Unknown() {}\nfunc TestScenarioD1() {}\n",
		"b.go":      "package a\nfunc TestScenario_C1_NotATest() {}\n",
	})
	require.Equal(t, []string{
		"a_test.go: TestScenario_Z9_Unknown names no scenario of repo_test.go",
		"a_test.go: TestScenarioD1 names no scenario of repo_test.go",
		"scenario C1: no test TestScenario_C1_",
	}, missingScenarios(files))
}

func TestUnreviewed(t *testing.T) {
	t.Parallel()
	var design strings.Builder
	for n := 1; n <= invariants; n++ {
		switch n {
		case 3: // missing
		case 4:
			design.WriteString("**I4.** As I1 says.\n")
		default:
			design.WriteString("**I" + strconv.Itoa(n) + ".** Holds.\n*Review:* read.\n")
		}
	}
	require.Equal(t, []string{
		"docs/design.md: invariant I3 starts 0 lines, want one",
		"docs/design.md: invariant I4 has no `Review:` note",
	}, unreviewed(design.String()))
}

func parseAll(t *testing.T, contents map[string]string) []source {
	t.Helper()
	var files []source
	for name, content := range contents {
		s, err := parse(name, content)
		require.NoError(t, err)
		files = append(files, s)
	}
	return files
}

func TestUnknownAndUnproven(t *testing.T) {
	t.Parallel()
	files := parseAll(t, map[string]string{
		"pkg/a/a_test.go": "package a\nfunc TestOne() {}\nfunc TestOneMore() {}\n",
		"pkg/b/b.go":      "package b\nfunc TestNone() {}\n",
	})
	repo := tree{
		tests: testsIn(files),
		mutants: map[string]mutant{
			"i01-x": {"pkg/a", regexp.MustCompile("^TestOne$")}, "i02-y": {"pkg/b", regexp.MustCompile(".")},
			"plain": {"pkg/a", regexp.MustCompile("^TestOneM")},
		},
		exists: func(path string) bool { return path == "pkg/a" },
	}
	require.Equal(t, []string{"there is no TestNone", "there is no TestTwo*", "there is no i03-*", "there is no pkg/c"},
		repo.unknown("`TestOne` `TestNone` `TestOne*` `TestTwo*` `i01-x` `i0` `i02-*` `i03-*` `pkg/a` `pkg/c` `Tests` `a/b` `go test`\n"))

	require.Empty(t, repo.unproven("| p | `TestOne*` | `i01-*`, `plain` | x |\n| q | `pkg/b` | `i02-*` | x |\n"))
	require.Equal(t, []string{
		"docs/guarantees.md: no row has the mutant i01-x and a test of pkg/a that catches it: ^TestOne$",
		"docs/guarantees.md: no row has the mutant i02-y and a test of pkg/b that catches it: .",
		"docs/guarantees.md: no row has the mutant plain and a test of pkg/a that catches it: ^TestOneM",
	}, repo.unproven("| p | `TestOneMore`, `pkg/b` | `i01-*` | x |\n| q | `pkg/a` | | x |\n`plain`\n| r | `TestOne*` | `i02-*` | x |\n"))
}

func TestUnresolved(t *testing.T) {
	t.Parallel()
	pages := map[string]string{
		"docs/a.md": "# A page\n## 4. What `b` does: HNS's\n[b](b.md) [up](../README.md) [far](https://x/y) [here](#a-page) [b](b.md#top)\n```\n[no](none.md)\n```\n" +
			"[c](c.md) [here](#a-pages) [b](b.md#bottom)\n",
		"docs/b.md": "# Top\n```\n# bottom\n```\n",
		"README.md": "[a](docs/a.md#4-what-b-does-hnss)",
	}
	repo := tree{exists: func(path string) bool { _, ok := pages[path]; return ok }}
	require.Equal(t, []string{"a link to c.md, which is not there", "a link to #a-pages, which is not there", "a link to b.md#bottom, which is not there"},
		repo.unresolved("docs/a.md", pages))
	require.Empty(t, repo.unresolved("README.md", pages))
}

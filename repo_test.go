// Package winnpm_test keeps the rules of the repository that no compiler
// knows: who may import whom, and what every file owes its readers.
package winnpm_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// maxLines bounds a Go file: one idea fits well below it.
const maxLines = 500

// maxFunctionLines bounds the body of a function, outside of tests and of what they use.
const maxFunctionLines = 60

// scenarios are the promises of docs/scenarios.md that this repository keeps so far,
// each by a test that is named after it, TestScenario_A1_...
var scenarios = strings.Fields(`A1 A2 A3 B1 B2 C1 C2 C3 C5 C6 C7 C8 C9 C10
	D1 D2 D3 D4 D5 D6 D7 D8 D9 D11 D12 E1 E2 E3 E4 E5 E7
	A4 A5 B3 B4 B5 B6 B7 B8 C4 D10 E6`)

// invariants is how many I1, I2, ... docs/design.md lists.
const invariants = 12

// source is one Go file of the repository, other modules in it included.
type source struct {
	path  string // with slashes, relative to the root
	lines int
	file  *ast.File
	set   *token.FileSet // of file
}

func (s source) test() bool { return strings.HasSuffix(s.path, "_test.go") }

// fileRules look at one file; each returns problems without the path.
var fileRules = map[string]func(source) []string{
	"lines":     tooLong,
	"functions": longFunctions,
	"sleep":     sleeps,
	"hcsshim":   usesHcsshim,
	"pure":      impure,
}

func TestFiles(t *testing.T) {
	t.Parallel()
	files := sources(t)
	require.NotEmpty(t, files)
	for _, s := range files {
		for _, rule := range fileRules {
			for _, problem := range rule(s) {
				t.Errorf("%s: %s", s.path, problem)
			}
		}
	}
	report(t, packageComments(files))
}

func TestEveryScenario(t *testing.T) {
	t.Parallel()
	report(t, missingScenarios(sources(t)))
	legend, err := os.ReadFile("docs/scenarios.md")
	require.NoError(t, err)
	for _, id := range scenarios {
		require.Contains(t, string(legend), "\n| "+id+" | ", "docs/scenarios.md has no row for %s", id)
	}
}

func TestInvariants(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("docs/design.md")
	require.NoError(t, err)
	report(t, unreviewed(string(text)))
}

func tooLong(s source) []string {
	if s.lines <= maxLines {
		return nil
	}
	return []string{fmt.Sprintf("%d lines, split it (at most %d)", s.lines, maxLines)}
}

// longFunctions refuses functions that do not fit on a screen. A test is a table, or
// tells one story from its beginning to its end.
func longFunctions(s source) []string {
	if s.test() || strings.HasPrefix(s.path, "test/") {
		return nil
	}
	var problems []string
	for _, decl := range s.file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		if lines := s.set.Position(f.Body.Rbrace).Line - s.set.Position(f.Body.Lbrace).Line - 1; lines > maxFunctionLines {
			problems = append(problems, fmt.Sprintf("%s has %d lines, take it apart (at most %d)", f.Name.Name, lines, maxFunctionLines))
		}
	}
	return problems
}

// sleeps refuses time.Sleep in tests of packages that have no bubble: there it
// is a guess about the machine. Under synctest it moves the bubble's clock.
func sleeps(s source) []string {
	if !s.test() || slices.Contains(imports(s.file), "testing/synctest") {
		return nil
	}
	var problems []string
	ast.Inspect(s.file, func(n ast.Node) bool {
		if isSelector(n, "time", "Sleep") {
			problems = append(problems, "time.Sleep in a test, use testing/synctest or a channel")
		}
		return true
	})
	return problems
}

// usesHcsshim keeps hcsshim in the one package that is a second binding, and in tests that
// are only built for Windows: a hand that makes networks, and the reference of our binding.
func usesHcsshim(s source) []string {
	if !slices.ContainsFunc(imports(s.file), under(hcsshim)) {
		return nil
	}
	ofThese := func(dir string) bool { return strings.HasPrefix(s.path, dir) }
	if slices.ContainsFunc([]string{"test/windows/", "pkg/hns/hcsadapter/"}, ofThese) && strings.HasSuffix(s.path, "_windows_test.go") ||
		ofThese(shim+"/") {
		return nil
	}
	return []string{"imports hcsshim, which belongs into " + shim + ", and into *_windows_test.go of test/windows and of the adapter"}
}

// shell are the files of pkg/dataplane that make calls, hold locks and read the clock
// for the core.
var shell = []string{"dataplane.go", "observe.go", "waitready.go"}

// impure refuses clocks, goroutines, locks and I/O in the pure core. That of the
// dataplane waits for nobody either, so it has no context.
func impure(s source) []string {
	refused := []string{"os", "io", "log", "log/slog", "net", "net/http", "sync", "sync/atomic"}
	switch dir := path.Dir(s.path); {
	case s.test():
		return nil
	case dir == "pkg/dataplane" && !slices.Contains(shell, path.Base(s.path)):
		refused = append(refused, "context")
	case !slices.Contains([]string{"pkg/ipsets", "pkg/policy", "pkg/tiers", "pkg/hns", "pkg/state", "pkg/acl", "pkg/backoff", "pkg/drift", "pkg/desired", "pkg/endpoints", "pkg/render", "pkg/conflist"}, dir):
		return nil
	}
	var problems []string
	for _, imported := range imports(s.file) {
		if slices.Contains(refused, imported) {
			problems = append(problems, "imports "+imported+" in a pure package")
		}
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		if _, ok := n.(*ast.GoStmt); ok {
			problems = append(problems, "starts a goroutine in a pure package")
		}
		if isSelector(n, "time", "Now") {
			problems = append(problems, "reads the clock in a pure package")
		}
		return true
	})
	return problems
}

// packageComments wants one package comment per package, in one file.
func packageComments(files []source) []string {
	comments := map[string]int{} // by folder
	for _, s := range files {
		// Tests speak for their folder only where there is nothing else.
		if s.test() && slices.ContainsFunc(files, func(o source) bool { return !o.test() && path.Dir(o.path) == path.Dir(s.path) }) {
			continue
		}
		comments[path.Dir(s.path)] += 0
		if s.file.Doc != nil {
			comments[path.Dir(s.path)]++
		}
	}
	var problems []string
	for dir, n := range comments {
		if n != 1 {
			problems = append(problems, fmt.Sprintf("%s: %d package comments, want one", dir, n))
		}
	}
	slices.Sort(problems)
	return problems
}

// missingScenarios wants a test for every scenario, and none for unknown ones.
func missingScenarios(files []source) []string {
	named := regexp.MustCompile(`^TestScenario_([^_]+)_.`)
	found := map[string]bool{}
	var problems []string
	for _, s := range files {
		for _, decl := range s.file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || !s.test() || !strings.HasPrefix(f.Name.Name, "TestScenario") {
				continue
			}
			match := named.FindStringSubmatch(f.Name.Name)
			if match == nil || !slices.Contains(scenarios, match[1]) {
				problems = append(problems, s.path+": "+f.Name.Name+" names no scenario of repo_test.go")
				continue
			}
			found[match[1]] = true
		}
	}
	for _, id := range scenarios {
		if !found[id] {
			problems = append(problems, "scenario "+id+": no test TestScenario_"+id+"_")
		}
	}
	return problems
}

// unreviewed wants each invariant once, followed by how it was reviewed.
func unreviewed(design string) []string {
	heads := regexp.MustCompile(`(?m)^\W*I(\d+)\b`).FindAllStringSubmatchIndex(design, -1)
	seen, reviewed := map[string]int{}, map[string]bool{}
	for i, head := range heads {
		end := len(design)
		if i+1 < len(heads) {
			end = heads[i+1][0]
		}
		id := "I" + design[head[2]:head[3]]
		seen[id]++
		reviewed[id] = strings.Contains(design[head[0]:end], "Review:")
	}
	var problems []string
	for n := 1; n <= invariants; n++ {
		switch id := "I" + strconv.Itoa(n); {
		case seen[id] != 1:
			problems = append(problems, fmt.Sprintf("docs/design.md: invariant %s starts %d lines, want one", id, seen[id]))
		case !reviewed[id]:
			problems = append(problems, "docs/design.md: invariant "+id+" has no `Review:` note")
		}
	}
	return problems
}

// sources parses every Go file below the root. What builds and tests leave
// behind starts with a dot, as .git does, or is testdata.
func sources(t *testing.T) []source {
	t.Helper()
	var files []source
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name != "." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(name) != ".go" {
			return nil
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		s, err := parse(filepath.ToSlash(name), string(content))
		files = append(files, s)
		return err
	})
	require.NoError(t, err)
	return files
}

func parse(name, content string) (source, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, content, parser.ParseComments)
	return source{path: name, lines: strings.Count(content, "\n"), file: file, set: set}, err
}

func imports(file *ast.File) []string {
	var out []string
	for _, spec := range file.Imports {
		out = append(out, strings.Trim(spec.Path.Value, `"`))
	}
	return out
}

// isSelector reports whether n is written pkg.name.
func isSelector(n ast.Node, pkg, name string) bool {
	s, ok := n.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == pkg && s.Sel.Name == name
}

package winnpm_test

import (
	"fmt"
	"go/ast"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// link is [text](target) in a document; heading a line that another page can link to.
var (
	link    = regexp.MustCompile(`\[[^\]\n]*\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.+)$`)
)

// quoted is what a document names as code.
var quoted = regexp.MustCompile("`([^`\n]+)`")

// A name with a star stands for every name that begins so.
var (
	testName   = regexp.MustCompile(`^(Test|Fuzz|Benchmark)[A-Z_]\w*\*?$`)
	mutantName = regexp.MustCompile(`^i\d\d-[a-z0-9-]*\*?$`)
	pathName   = regexp.MustCompile(`^(\.ci|\.github|cmd|deploy|docs|examples|hack|pkg|test)/[\w./-]*\w$`)
)

// mutant is what the header of a patch in test/mutants names.
type mutant struct {
	pkg   string // folder
	tests *regexp.Regexp
}

// tree is what documents speak of.
type tree struct {
	tests   map[string][]string // folders, by test function
	mutants map[string]mutant
	exists  func(path string) bool
}

// TestDocs: what documents name is there, and each mutant is in the table of
// promises beside a test that catches it.
func TestDocs(t *testing.T) {
	t.Parallel()
	repo := tree{testsIn(sources(t)), mutants(t), func(path string) bool {
		_, err := os.Stat(path)
		return err == nil
	}}
	require.NotEmpty(t, repo.mutants)
	pages := documents(t)
	for name, text := range pages {
		for _, problem := range append(repo.unknown(text), repo.unresolved(name, pages)...) {
			t.Errorf("%s: %s", name, problem)
		}
	}
	guarantees, err := os.ReadFile("docs/guarantees.md")
	require.NoError(t, err)
	report(t, repo.unproven(string(guarantees)))
}

// unknown wants every test, mutant and path that a document names.
func (r tree) unknown(document string) []string {
	var problems []string
	for _, match := range quoted.FindAllStringSubmatch(document, -1) {
		name, there := match[1], true
		switch {
		case testName.MatchString(name):
			there = anyLike(r.tests, name)
		case mutantName.MatchString(name):
			there = anyLike(r.mutants, name)
		case pathName.MatchString(name):
			there = r.exists(name)
		}
		if !there {
			problems = append(problems, "there is no "+name)
		}
	}
	return problems
}

// unresolved wants the page, folder and heading to which a page links, unless they are
// on another server.
func (r tree) unresolved(page string, pages map[string]string) []string {
	var problems []string
	for _, match := range link.FindAllStringSubmatch(block.ReplaceAllString(pages[page], ""), -1) {
		if strings.Contains(match[1], "://") {
			continue
		}
		to, anchor, _ := strings.Cut(match[1], "#")
		file := page
		if to != "" {
			file = path.Join(path.Dir(page), to)
		}
		if !r.exists(file) || anchor != "" && !slices.Contains(anchors(pages[file]), anchor) {
			problems = append(problems, "a link to "+match[1]+", which is not there")
		}
	}
	return problems
}

// anchors returns the names by which the headings of a page can be linked to, as
// GitHub makes them: in lower case, with hyphens for blanks and without punctuation.
func anchors(page string) []string {
	var out []string
	for _, match := range heading.FindAllStringSubmatch(block.ReplaceAllString(page, ""), -1) {
		out = append(out, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, strings.TrimSpace(match[1])))
	}
	return out
}

// unproven wants a row for each mutant, promise | tests | mutants | proof, whose tests
// name one that the mutant's header names, or all of its package.
func (r tree) unproven(table string) []string {
	caught := map[string]bool{}
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) != 6 {
			continue
		}
		for _, match := range quoted.FindAllStringSubmatch(cells[3], -1) {
			for name, m := range r.mutants {
				caught[name] = caught[name] || like(match[1], name) && r.catches(cells[2], m)
			}
		}
	}
	var problems []string
	for name, m := range r.mutants {
		if !caught[name] {
			problems = append(problems, fmt.Sprintf("docs/guarantees.md: no row has the mutant %s and a test of %s that catches it: %s", name, m.pkg, m.tests))
		}
	}
	slices.Sort(problems)
	return problems
}

func (r tree) catches(tests string, m mutant) bool {
	for _, match := range quoted.FindAllStringSubmatch(tests, -1) {
		if match[1] == m.pkg {
			return true
		}
		for name, folders := range r.tests {
			if like(match[1], name) && slices.Contains(folders, m.pkg) && m.tests.MatchString(name) {
				return true
			}
		}
	}
	return false
}

func like(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

func anyLike[V any](names map[string]V, pattern string) bool {
	for name := range names {
		if like(pattern, name) {
			return true
		}
	}
	return false
}

// testsIn returns the folders of each test, benchmark and fuzz target.
func testsIn(files []source) map[string][]string {
	folders := map[string][]string{}
	for _, s := range files {
		for _, decl := range s.file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && s.test() && testName.MatchString(f.Name.Name) {
				folders[f.Name.Name] = append(folders[f.Name.Name], path.Dir(s.path))
			}
		}
	}
	return folders
}

// mutants reads the headers of the patches, see test/mutants/README.md.
func mutants(t *testing.T) map[string]mutant {
	t.Helper()
	header := regexp.MustCompile(`(?m)^Test: \./(\S+) ([^/\s]+)`) // without subtests
	files, err := filepath.Glob("test/mutants/*.patch")
	require.NoError(t, err)
	out := map[string]mutant{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		match := header.FindStringSubmatch(string(content))
		require.NotNil(t, match, file)
		out[strings.TrimSuffix(filepath.Base(file), ".patch")] = mutant{match[1], regexp.MustCompile(match[2])}
	}
	return out
}

// documents returns every page of the repository.
func documents(t *testing.T) map[string]string {
	t.Helper()
	pages := map[string]string{}
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && name != "." && strings.HasPrefix(entry.Name(), ".") {
			return filepath.SkipDir
		}
		if err != nil || filepath.Ext(name) != ".md" {
			return err
		}
		content, err := os.ReadFile(name)
		pages[filepath.ToSlash(name)] = string(content)
		return err
	})
	require.NoError(t, err)
	return pages
}

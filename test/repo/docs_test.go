package repo

import (
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
	block   = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	link    = regexp.MustCompile(`\[[^\]\n]*\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.+)$`)
)

// quoted matches code in a document.
var quoted = regexp.MustCompile("`([^`\n]+)`")

// A name with a star stands for every name that begins so.
var (
	testName   = regexp.MustCompile(`^(Test|Fuzz|Benchmark)[A-Z_]\w*\*?$`)
	mutantName = regexp.MustCompile(`^i\d\d-[a-z0-9-]*\*?$`)
	pathName   = regexp.MustCompile(`^(\.ci|\.github|cmd|deploy|docs|examples|hack|pkg|test|tool)/[\w./-]*\w$`)
)

// tree holds the names that documents may use.
type tree struct {
	tests   map[string][]string // folders, by test function
	mutants map[string]bool
	exists  func(path string) bool
}

// TestDocs checks that the tests, mutants, files and headings that documents name exist, and
// that each mutant is in the table of guarantees.
func TestDocs(t *testing.T) {
	t.Parallel()
	repo := tree{testsIn(t), mutants(t), func(path string) bool {
		_, err := os.Stat(path)
		return err == nil
	}}
	require.NotEmpty(t, repo.tests)
	require.NotEmpty(t, repo.mutants)
	pages := files(t, ".md")
	for name, text := range pages {
		for _, problem := range append(repo.unknown(text), repo.unresolved(name, pages)...) {
			t.Errorf("%s: %s", name, problem)
		}
	}
	guarantees, err := os.ReadFile("docs/guarantees.md")
	require.NoError(t, err)
	for _, problem := range repo.unproven(string(guarantees)) {
		t.Error(problem)
	}
}

// unknown returns the tests, mutants and paths that a document names and that do not exist.
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

// unresolved returns the links of a page to pages, folders and headings of this repository that do not exist.
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

// unproven returns the mutants that no row of a table with the columns promise, tests, mutants and proof names.
func (r tree) unproven(table string) []string {
	var named []string
	for line := range strings.Lines(table) {
		if cells := strings.Split(line, "|"); len(cells) == 6 {
			for _, match := range quoted.FindAllStringSubmatch(cells[3], -1) {
				named = append(named, match[1])
			}
		}
	}
	var problems []string
	for name := range r.mutants {
		if !slices.ContainsFunc(named, func(pattern string) bool { return like(pattern, name) }) {
			problems = append(problems, "docs/guarantees.md: no row has the mutant "+name)
		}
	}
	return problems
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
func testsIn(t *testing.T) map[string][]string {
	t.Helper()
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)[A-Z_]\w*)\(`)
	folders := map[string][]string{}
	for file, text := range files(t, "_test.go") {
		for _, match := range declared.FindAllStringSubmatch(text, -1) {
			folders[match[1]] = append(folders[match[1]], path.Dir(file))
		}
	}
	return folders
}

// mutants returns the names of the patches in test/mutants.
func mutants(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for file := range files(t, ".patch") {
		names[strings.TrimSuffix(path.Base(file), ".patch")] = true
	}
	return names
}

// files returns the texts of all files of the repository whose names end so.
func files(t *testing.T, suffix string) map[string]string {
	t.Helper()
	texts := map[string]string{}
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && name != "." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata") {
			return filepath.SkipDir
		}
		if err != nil || !strings.HasSuffix(name, suffix) {
			return err
		}
		content, err := os.ReadFile(name)
		texts[filepath.ToSlash(name)] = string(content)
		return err
	})
	require.NoError(t, err)
	return texts
}

package repo

import (
	"io/fs"
	"maps"
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
	tests   map[string]bool
	mutants map[string]bool
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// TestDocs checks that the tests, mutants, files and headings that documents name exist, and
// that each mutant is in the table of guarantees.
func TestDocs(t *testing.T) {
	t.Parallel()
	repo := tree{testsIn(t), map[string]bool{}}
	for file := range files(t, ".patch") {
		repo.mutants[strings.TrimSuffix(path.Base(file), ".patch")] = true
	}
	require.NotEmpty(t, repo.tests)
	require.NotEmpty(t, repo.mutants)
	pages := files(t, ".md")
	for name, text := range pages {
		for _, problem := range append(repo.unknown(text), unresolved(name, pages)...) {
			t.Errorf("%s: %s", name, problem)
		}
	}
	var named []string // in the third column of the table, after promise and tests
	for line := range strings.Lines(pages["docs/guarantees.md"]) {
		if cells := strings.Split(line, "|"); len(cells) == 6 {
			for _, match := range quoted.FindAllStringSubmatch(cells[3], -1) {
				named = append(named, match[1])
			}
		}
	}
	for name := range repo.mutants {
		require.True(t, slices.ContainsFunc(named, func(pattern string) bool { return like(pattern, name) }),
			"docs/guarantees.md: no row has the mutant %s", name)
	}
}

// unknown returns the tests, mutants and paths that a document names and that do not exist.
func (r tree) unknown(document string) []string {
	var problems []string
	for _, match := range quoted.FindAllStringSubmatch(document, -1) {
		name, there := match[1], true
		script, isScript := strings.CutPrefix(name, "TestScripts/")
		switch {
		case isScript:
			there = exists("pkg/dataplane/testdata/" + script + ".txtar")
		case testName.MatchString(name):
			there = anyLike(r.tests, name)
		case mutantName.MatchString(name):
			there = anyLike(r.mutants, name)
		case pathName.MatchString(name):
			there = exists(name)
		}
		if !there {
			problems = append(problems, "there is no "+name)
		}
	}
	return problems
}

// unresolved returns the links of a page to pages, folders and headings of this repository that do not exist.
func unresolved(page string, pages map[string]string) []string {
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
		if !exists(file) || anchor != "" && !slices.Contains(anchors(pages[file]), anchor) {
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

func like(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

func anyLike(names map[string]bool, pattern string) bool {
	return slices.ContainsFunc(slices.Collect(maps.Keys(names)), func(name string) bool { return like(pattern, name) })
}

// testsIn returns the names of all tests, benchmarks and fuzz targets.
func testsIn(t *testing.T) map[string]bool {
	t.Helper()
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)[A-Z_]\w*)\(`)
	names := map[string]bool{}
	for _, text := range files(t, "_test.go") {
		for _, match := range declared.FindAllStringSubmatch(text, -1) {
			names[match[1]] = true
		}
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

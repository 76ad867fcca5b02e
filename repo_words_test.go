package winnpm_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

const glossary = "docs/glossary.md"

// TestWords: the words that the glossary replaces are in no document and in no text
// of the programs that a user can see: logs, errors, warnings, help.
func TestWords(t *testing.T) {
	t.Parallel()
	pages := documents(t)
	words := homeMade(pages[glossary])
	require.NotEmpty(t, words)
	unwanted := anyOf(words)
	for name, text := range pages {
		if dir := path.Dir(name); name == glossary || dir != "." && dir != "docs" {
			continue // other folders: decisions as they were made, and notes beside the code
		}
		for _, word := range unwanted.FindAllString(prose(text), -1) {
			t.Errorf("%s: %q; docs/glossary.md has the word to use", name, word)
		}
	}
	for _, s := range sources(t) {
		if s.test() || !strings.HasPrefix(s.path, "cmd/") && !strings.HasPrefix(s.path, "pkg/") {
			continue
		}
		for _, text := range shownTexts(s.file) {
			for _, word := range unwanted.FindAllString(text, -1) {
				t.Errorf("%s: %q in %q; docs/glossary.md has the word to use", s.path, word, text)
			}
		}
	}
}

// TestNames: no file and nothing that is declared, in tests as well, has a name with a
// word that the glossary replaces.
func TestNames(t *testing.T) {
	t.Parallel()
	words := homeMade(documents(t)[glossary])
	require.NotEmpty(t, words)
	for i, word := range words {
		words[i] = spoken(word)
	}
	unwanted := anyOf(words)
	said := map[string]string{} // of a name: most are in many files
	for _, s := range sources(t) {
		for _, name := range append(declared(s.file), strings.TrimSuffix(path.Base(s.path), ".go")) {
			word, ok := said[name]
			if !ok {
				word = unwanted.FindString(spoken(name))
				said[name] = word
			}
			if word != "" {
				t.Errorf("%s: the name %s has %q in it; docs/glossary.md has the word to use", s.path, name, word)
			}
		}
	}
}

// declared returns the names that a file declares, in whatever scope.
func declared(file *ast.File) []string {
	var names []string
	ast.Inspect(file, func(n ast.Node) bool {
		var idents []*ast.Ident
		switch n := n.(type) {
		case *ast.ImportSpec:
			idents = append(idents, n.Name)
		case *ast.TypeSpec:
			idents = append(idents, n.Name)
		case *ast.ValueSpec:
			idents = n.Names
		case *ast.FuncDecl:
			idents = append(idents, n.Name)
		case *ast.Field: // parameters and results as well
			idents = n.Names
		case *ast.LabeledStmt:
			idents = append(idents, n.Label)
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				idents = identifiers(n.Lhs...)
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				idents = identifiers(n.Key, n.Value)
			}
		}
		for _, ident := range idents {
			if ident != nil {
				names = append(names, ident.Name)
			}
		}
		return true
	})
	return names
}

func identifiers(exprs ...ast.Expr) []*ast.Ident {
	var out []*ast.Ident
	for _, e := range exprs {
		if ident, ok := e.(*ast.Ident); ok {
			out = append(out, ident)
		}
	}
	return out
}

var part = regexp.MustCompile(`\p{Lu}+\d*(?:\p{Ll}[\p{Ll}\d]*)?|[\p{Ll}\d]+`)

// spoken writes the parts of a name as words: mayHave is "may have".
func spoken(name string) string {
	var words []string
	for _, word := range part.FindAllString(name, -1) {
		// The last capital of a run begins the next part: HNSDoor is HNS, Door.
		if run := len(word) - len(strings.TrimLeftFunc(word, unicode.IsUpper)); run > 1 && run < len(word) {
			words = append(words, word[:run-1])
			word = word[run-1:]
		}
		words = append(words, strings.ToLower(word))
	}
	return strings.ToLower(strings.Join(words, " "))
}

// homeMade returns what the last column of the glossary's tables has in backticks.
func homeMade(text string) []string {
	var words []string
	for line := range strings.Lines(text) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 {
			continue
		}
		for _, match := range quoted.FindAllStringSubmatch(cells[3], -1) {
			words = append(words, match[1])
		}
	}
	return words
}

// anyOf matches each of the words, in any case and at the ends of words.
func anyOf(words []string) *regexp.Regexp {
	var choices []string
	for _, word := range words {
		choices = append(choices, strings.ReplaceAll(regexp.QuoteMeta(word), " ", `\s+`))
	}
	return regexp.MustCompile(`(?i)\b(?:` + strings.Join(choices, "|") + `)\b`)
}

var (
	block  = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	target = regexp.MustCompile(`\]\([^)]*\)`)
)

// prose is a document without what is no prose: blocks and names of code, such as
// what commands print, and where links lead.
func prose(document string) string {
	return target.ReplaceAllString(quoted.ReplaceAllString(block.ReplaceAllString(document, ""), ""), "]")
}

// shownTexts returns the texts of a file that may come out of the program: all but
// imports, the tags of fields, and what a BUG says to whoever mends it.
func shownTexts(file *ast.File) []string {
	var texts []string
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			n.Tag = nil
		case *ast.BasicLit:
			if n.Kind != token.STRING {
				return false
			}
			if text, err := strconv.Unquote(n.Value); err == nil && !strings.HasPrefix(text, "BUG: ") {
				texts = append(texts, text)
			}
		}
		return true
	})
	return texts
}

func TestHomeMadeWords(t *testing.T) {
	t.Parallel()
	words := homeMade("| term | here | in place of |\n|---|---|---|\n| lock | `x` one lock | `door`, \"gate\" |\n| queue | fair | `take turns` |\n| none | | |\n")
	require.Equal(t, []string{"door", "take turns"}, words)

	unwanted := anyOf(words)
	require.Equal(t, []string{"Door", "take\nturns"}, unwanted.FindAllString("A Door, outdoors; they take\nturns, it turns.", -1))
	require.Empty(t, unwanted.FindAllString(prose("`door` and [names](adr/door.md):\n```\nthe door\n```\nno `TestDoor`\n"), -1))

	file, err := parser.ParseFile(token.NewFileSet(), "a.go",
		"package a\nimport \"door\"\ntype t struct { a int `door:\"x\"` }\nfunc f() { panic(\"BUG: door\"); log(\"no door\", `a door`) }\n", 0)
	require.NoError(t, err)
	require.Equal(t, []string{"no door", "a door"}, slices.Collect(slices.Values(shownTexts(file))))
}

func TestSpoken(t *testing.T) {
	t.Parallel()
	for name, words := range map[string]string{
		"door": "door", "mayHave": "may have", "TestOneDoor": "test one door", "HNSDoor": "hns door", "doorOfHNS": "door of hns",
		"TestScenario_A3_OneDoor": "test scenario a3 one door", "turns_test": "turns test", "outdoors": "outdoors", "ipv4Door": "ipv4 door",
	} {
		require.Equal(t, words, spoken(name))
	}
	file, err := parser.ParseFile(token.NewFileSet(), "a.go", `package a
import e "f"
type g[h any] struct { i, j int }
const k = 0
func (l g[int]) m(n int) (o int) {
	p, _ := x.y, 0
	var q = g[int]{i: p}
	for r, s := range z { t = func(u int) {} }
v:
	return
}`, 0)
	require.NoError(t, err)
	require.Equal(t, strings.Split("a e g h i j k m l n o p _ q r s u v", " "), append([]string{"a"}, declared(file)...))
}

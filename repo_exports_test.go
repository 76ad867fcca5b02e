package winnpm_test

import (
	"go/ast"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// maxExports is how many names a package exports that fits on a screen: functions,
// types, variables and constants. Methods count with their type.
const maxExports = 40

// manyExports are the packages with more of them, each with its reason and bound.
var manyExports = map[string]struct {
	most int
	why  string
}{
	"pkg/hns":        {97, "the words of HNS: its operations, verbs, error classes and codes are constants"},
	"pkg/hns/hnssim": {66, "what HNS can be told to do otherwise has a name each: modes, states, spellings, limits"},
	"pkg/ipsets":     {70, "the kinds of sets, references and verbs are constants, and each kind of set has its maker"},
	"pkg/policy":     {60, "protocols, tiers, actions and reasons are constants, and both kinds of policy have a compiled form"},
	"pkg/state":      {49, "a dump is one type for each kind of object, and each reason of a warning has a name"},
}

func TestExports(t *testing.T) {
	exported := map[string][]string{}
	for _, s := range sources(t) {
		if dir := path.Dir(s.path); !s.test() && (strings.HasPrefix(dir, "pkg/") || strings.HasPrefix(dir, "cmd/")) {
			exported[dir] = append(exported[dir], exports(s.file)...)
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(exported)) {
		n, most := len(exported[dir]), maxExports
		if more, ok := manyExports[dir]; ok {
			require.Greater(t, n, maxExports, "%s needs no reason any more", dir)
			most = more.most
		}
		if n > most {
			t.Errorf("%s exports %d names (at most %d): make it two packages", dir, n, most)
		}
	}
}

// exports returns the names that a file exports, methods aside.
func exports(file *ast.File) (names []string) {
	add := func(ids ...*ast.Ident) {
		for _, id := range ids {
			if id.IsExported() {
				names = append(names, id.Name)
			}
		}
	}
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if decl.Recv == nil {
				add(decl.Name)
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					add(spec.Name)
				case *ast.ValueSpec:
					add(spec.Names...)
				}
			}
		}
	}
	return names
}

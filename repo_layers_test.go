package winnpm_test

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// layers are the files of packages that are too large for one idea, from below: a file
// uses its own layer and those below it. Methods of these types are used from wherever
// their files allow; the types themselves from everywhere, as they are the receivers.
var layers = map[string]struct {
	receivers []string
	files     []string
}{
	"pkg/desired": {
		receivers: []string{"State", "members"},
		files: []string{
			// values: objects, and what follows from one of them
			"changes doc objects overbudget",
			// who is in which set, and under which numbers named ports are served
			"cluster doubt members namedports nodesets pod podgroups policy problems views weights",
			// what should be as a whole, from below
			"state holding orphans podbudget",
			"ownership rules tierinput tierlist",
			"active clusters crowds policies",
			"lost new pods stage",
			// what others see of it
			"count dump idle restore tierwarnings warnings",
		},
	},
	"pkg/endpoints": {
		receivers: []string{"State", "Endpoint"},
		files: []string{
			// one endpoint
			"compromises doc dumplists endpoint state",
			// all of them: what is known, what is desired, and the queue
			"counts endpoints unread cause fairqueue due known open own podstart references render repair tiersteps update",
			"reads refusals tierrefusals isolate outcome ready fold",
			// what others see of them
			"dump outstanding restore warnings",
		},
	},
	"pkg/dataplane": {
		receivers: []string{"core", "run"},
		files: []string{
			// values: what comes in and what goes out
			"config look request setwork transaction written",
			// the core, and what observations bring in
			"core fold repair stage",
			// what HNS is asked
			"isolate listing refusals removesets run setrefusals starting tierrefusals updatepods writesets",
			// the transaction as a whole, and what came of it
			"activewarnings outcome sequence",
			// the core from outside: the shell, dumps, plans
			"dataplane doc dumping observe plan restore snapshot stats waitready willing",
		},
	},
}

// TestLayers: no file of a package with layers uses a layer above its own.
func TestLayers(t *testing.T) {
	for dir, want := range layers {
		layer := map[string]int{}
		for i, files := range want.files {
			for name := range strings.FieldsSeq(files) {
				layer[name+".go"] = i
			}
		}
		uses := usesWithin(t, dir)
		for from, names := range uses {
			require.Contains(t, layer, from, "%s: which layer is it in?", dir)
			for to, what := range names {
				what = slices.DeleteFunc(what, func(name string) bool { return slices.Contains(want.receivers, name) })
				if len(what) > 0 && layer[from] < layer[to] {
					t.Errorf("%s/%s uses %v of %s, which is above it", dir, from, what, to)
				}
			}
		}
		require.Len(t, uses, len(layer), "%s: a layer names a file that is not there", dir)
	}
}

// usesWithin returns what the files of a package use of each other: by file, the other
// file, and the functions, methods, types, variables and constants that it declares.
func usesWithin(t *testing.T, dir string) map[string]map[string][]string {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", "./"+dir).Output()
	require.NoError(t, err)
	exports := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		exports[path] = file
	}
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	fset := token.NewFileSet()
	uses := map[string]map[string][]string{}
	var files []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		files = append(files, f)
		uses[filepath.Base(path)] = map[string][]string{}
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	conf := types.Config{Importer: importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })}
	pkg, err := conf.Check(dir, fset, files, info)
	require.NoError(t, err)
	for id, object := range info.Uses {
		_, isFunc := object.(*types.Func)
		if object.Pkg() != pkg || !isFunc && object.Parent() != pkg.Scope() { // fields and locals are no arrows
			continue
		}
		from, to := filepath.Base(fset.Position(id.Pos()).Filename), filepath.Base(fset.Position(object.Pos()).Filename)
		if from != to && !slices.Contains(uses[from][to], object.Name()) {
			uses[from][to] = append(uses[from][to], object.Name())
		}
	}
	return uses
}

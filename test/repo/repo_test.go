// Package repo tests rules of the repository that neither the compiler nor the linter knows.
package repo

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/winnpm/winnpm/"

func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// pure are the packages without I/O, clock, goroutine and lock.
var pure = []string{"pkg/ipsets", "pkg/policy", "pkg/hns", "pkg/state", "pkg/acl", "pkg/backoff", "pkg/desired", "pkg/endpoints"}

// edges are the files of pkg/dataplane that call HNS, hold locks and read the clock. The steps of a transaction
// are in the others, and call HNS through ask alone.
var edges = []string{"dataplane.go", "transaction.go", "observe.go", "progress.go"}

func TestPurePackages(t *testing.T) {
	t.Parallel()
	impure := []string{"os", "io", "log", "log/slog", "net", "net/http", "sync", "sync/atomic"}
	checked := map[string]bool{}
	for file, text := range files(t, ".go") {
		dir, step := path.Dir(file), false
		if dir == "pkg/dataplane" {
			step = !slices.Contains(edges, path.Base(file))
		}
		if strings.HasSuffix(file, "_test.go") || !step && !slices.Contains(pure, dir) {
			continue
		}
		checked[dir] = true
		f, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, spec := range f.Imports {
			imported := strings.Trim(spec.Path.Value, `"`)
			if slices.Contains(impure, imported) || step && imported == "context" {
				t.Errorf("%s imports %s", file, imported)
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if _, ok := n.(*ast.GoStmt); ok {
				t.Errorf("%s starts a goroutine", file)
			}
			selector, ok := n.(*ast.SelectorExpr)
			if ok && step && selector.Sel.Name == "client" {
				t.Errorf("%s calls HNS other than through ask", file)
			}
			if ok && selector.Sel.Name == "Now" {
				if x, ok := selector.X.(*ast.Ident); ok && x.Name == "time" {
					t.Errorf("%s reads the clock", file)
				}
			}
			return true
		})
	}
	require.Len(t, checked, len(pure)+1, "a pure package that does not exist")
}

// never lists packages that must not be linked in, directly or indirectly.
var never = []struct{ pkg, banned, why string }{
	{"pkg/ipsets", module + "pkg", "sets know nothing else of this repository"},
	{"pkg/policy", module + "pkg/hns", "the meaning of a policy does not depend on HNS"},
	{"pkg/policy", "k8s.io/client-go", "the meaning of a policy does not depend on a cluster"},
	{"pkg/dataplane", "k8s.io/client-go", "controllers talk to the API server"},
	{"pkg/desired", module + "pkg/endpoints", "the desired state does not depend on the actual one"},
	{"pkg/desired", module + "pkg/hns/versioned", "the desired state does not depend on the actual one"},
	{"pkg/endpoints", module + "pkg/dataplane", "the dataplane asks the endpoints, not the reverse"},
	{"pkg/debug", "k8s.io/client-go", "pages show dumps"},
	{"tool/ui", module + "pkg/dataplane", "pages show dumps"},
	{"tool/explain", module + "pkg/dataplane", "an explanation reads a dump"},
	{"tool/explain", module + "tool/hnssim", "an explanation reads a dump"},
	{"tool/explain", "k8s.io/client-go", "an explanation reads a dump"},
	{"cmd/npm", module + "tool", "a node runs what protects it, and nothing that serves people"},
	{"cmd/winnpm-cni", module + "tool", "a node runs what protects it, and nothing that serves people"},
	{"cmd/npm", "k8s.io/client-go/kubernetes", "it costs a minute of compiling; use a rest client"},
	{"cmd/npm", "k8s.io/client-go/informers", "it costs a minute of compiling; use tools/cache"},
	{"cmd/winnpm-cni", "k8s.io/api", "it starts once for each pod, and must be small"},
	{"cmd/winnpm-cni", "k8s.io/client-go", "it starts once for each pod, and asks the agent"},
	{"cmd/winnpm-cni", module + "pkg/hns", "only the agent writes to HNS (I6)"},
	{"test/oracle", module + "pkg", "an oracle shares no code with its subject"},
}

func TestImports(t *testing.T) {
	t.Parallel()
	for _, goos := range []string{"linux", "windows"} {
		cmd := exec.CommandContext(t.Context(), "go", "list", "-f", `{{.ImportPath}} {{join .Deps " "}}`, "./pkg/...", "./tool/...", "./cmd/...", "./test/oracle")
		cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH=amd64", "CGO_ENABLED=0")
		out, err := cmd.Output()
		require.NoError(t, err)
		deps := map[string][]string{}
		for line := range strings.Lines(string(out)) {
			words := strings.Fields(line)
			deps[strings.TrimPrefix(words[0], module)] = words[1:]
		}
		for _, rule := range never {
			require.Contains(t, deps, rule.pkg)
			for _, dep := range deps[rule.pkg] {
				if dep == rule.banned || strings.HasPrefix(dep, rule.banned+"/") {
					t.Errorf("%s links %s: %s", rule.pkg, dep, rule.why)
				}
			}
		}
	}
}

// TestNoSleep refuses time.Sleep in tests without synctest: it is a guess about the machine. A file that calls
// pass is one of synctest: pass panics outside of a bubble.
func TestNoSleep(t *testing.T) {
	t.Parallel()
	for file, text := range files(t, "_test.go") {
		if strings.Contains(text, "\ttime.Sleep(") && !strings.Contains(text, `"testing/synctest"`) && !strings.Contains(text, " pass(") && !strings.Contains(text, "\tpass(") {
			t.Errorf("%s: use testing/synctest or a channel", file)
		}
	}
}

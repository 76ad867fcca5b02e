package winnpm_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	module  = "github.com/winnpm/winnpm"
	hcsshim = "github.com/Microsoft/hcsshim"
	shim    = "pkg/hns/hcsadapter/shim"
)

// room is what a package may import itself, tests aside, besides the standard
// library: packages of ours, and prefixes of everybody else's.
type room struct {
	ours, others []string
}

// anything is for the edges, which wire whatever they need.
var anything = []string{""}

// rooms is the picture of the packages in docs/design.md. A package that is not here
// is not part of it yet: put it where it belongs there, then here.
var rooms = map[string]room{
	"pkg/ipsets":              {},
	"pkg/printable":           {},
	"pkg/bounded":             {},
	"pkg/hns":                 {},
	"pkg/hns/dllcalls":        {},
	"pkg/hns/hcsadapter":      {ours: []string{"pkg/hns", "pkg/hns/dllcalls"}, others: []string{"golang.org/x/sys/windows"}},
	"pkg/hns/hcsadapter/shim": {ours: []string{"pkg/hns/hcsadapter"}, others: []string{hcsshim + "/hcn", "golang.org/x/sys/windows"}},
	"pkg/hns/canary":          {ours: []string{"pkg/hns"}},
	"pkg/hns/hnssim":          {ours: []string{"pkg/hns", "pkg/hns/dllcalls"}},
	"pkg/hns/versioned":       {ours: []string{"pkg/hns"}},
	"pkg/hns/hnstest":         {ours: []string{"pkg/hns", "pkg/hns/versioned"}, others: []string{"github.com/stretchr/testify", "github.com/google/go-cmp"}},
	"pkg/hns/hnstest/onsim":   {ours: []string{"pkg/hns", "pkg/hns/hnssim", "pkg/hns/hnstest"}, others: []string{"github.com/stretchr/testify"}},
	"pkg/policy":              {ours: []string{"pkg/ipsets"}, others: []string{"k8s.io/api/", "k8s.io/apimachinery/", "sigs.k8s.io/network-policy-api/apis/v1alpha2", "go4.org/netipx"}},
	"pkg/conflist":            {},
	"pkg/backoff":             {ours: []string{"pkg/hns"}},
	"pkg/acl":                 {ours: []string{"pkg/policy", "pkg/hns"}},
	"pkg/drift":               {ours: []string{"pkg/acl", "pkg/backoff", "pkg/state", "pkg/ipsets", "pkg/hns"}},
	"pkg/tiers":               {ours: []string{"pkg/policy", "pkg/ipsets"}},
	"pkg/state":               {ours: []string{"pkg/policy", "pkg/ipsets", "pkg/hns"}, others: []string{"k8s.io/api/", "sigs.k8s.io/network-policy-api/apis/v1alpha2"}},
	"pkg/progress":            {ours: []string{"pkg/printable", "pkg/state"}},
	"pkg/render":              {ours: []string{"pkg/acl", "pkg/state", "pkg/policy", "pkg/tiers", "pkg/ipsets", "pkg/hns"}},
	"pkg/desired":             {ours: []string{"pkg/acl", "pkg/backoff", "pkg/progress", "pkg/render", "pkg/state", "pkg/policy", "pkg/tiers", "pkg/ipsets", "pkg/hns"}, others: []string{"k8s.io/api/", "k8s.io/apimachinery/", "sigs.k8s.io/network-policy-api/apis/v1alpha2"}},
	"pkg/endpoints":           {ours: []string{"pkg/acl", "pkg/backoff", "pkg/desired", "pkg/drift", "pkg/progress", "pkg/render", "pkg/state", "pkg/policy", "pkg/ipsets", "pkg/hns", "pkg/hns/versioned"}, others: []string{"k8s.io/apimachinery/"}},
	"pkg/dataplane":           {ours: []string{"pkg/acl", "pkg/backoff", "pkg/desired", "pkg/drift", "pkg/endpoints", "pkg/progress", "pkg/state", "pkg/policy", "pkg/ipsets", "pkg/hns", "pkg/hns/versioned"}, others: []string{"k8s.io/apimachinery/"}},
	"pkg/controllers":         {ours: []string{"pkg/bounded", "pkg/dataplane", "pkg/desired", "pkg/gate", "pkg/state", "pkg/policy"}, others: []string{"k8s.io/", "sigs.k8s.io/network-policy-api/apis/v1alpha2"}},
	"pkg/controllers/events": {
		ours:   []string{"pkg/controllers", "pkg/desired", "pkg/state", "pkg/policy", "pkg/printable"},
		others: []string{"k8s.io/", "sigs.k8s.io/network-policy-api/apis/v1alpha2"},
	},
	"pkg/controllers/reviews": {ours: []string{"pkg/controllers"}, others: []string{"k8s.io/"}},
	"pkg/explain":             {ours: []string{"pkg/state", "pkg/policy", "pkg/ipsets", "pkg/hns", "pkg/printable", "pkg/similar"}, others: []string{"k8s.io/api/", "k8s.io/apimachinery/", "sigs.k8s.io/network-policy-api/apis/v1alpha2"}},
	"pkg/matrix":              {ours: []string{"pkg/state", "pkg/explain", "pkg/policy", "pkg/hns"}, others: []string{"k8s.io/api/", "k8s.io/apimachinery/"}},
	"pkg/whatif": {
		ours:   []string{"pkg/dataplane", "pkg/desired", "pkg/state", "pkg/explain", "pkg/hns", "pkg/hns/hnssim", "pkg/matrix", "pkg/policy", "pkg/printable", "pkg/similar"},
		others: []string{"k8s.io/api/", "k8s.io/apimachinery/", "sigs.k8s.io/network-policy-api/apis/v1alpha2", "go4.org/netipx"},
	},
	"pkg/recorder":          {ours: []string{"pkg/bounded", "pkg/dataplane", "pkg/desired", "pkg/policy", "pkg/state", "pkg/hns", "pkg/hns/dllcalls"}, others: []string{"k8s.io/api/", "k8s.io/apimachinery/", "sigs.k8s.io/network-policy-api/apis/v1alpha2"}},
	"pkg/replay":            {ours: []string{"pkg/acl", "pkg/recorder", "pkg/dataplane", "pkg/desired", "pkg/state", "pkg/policy", "pkg/hns", "pkg/hns/hnssim", "pkg/printable"}, others: []string{"k8s.io/api/", "k8s.io/apimachinery/", "sigs.k8s.io/network-policy-api/apis/v1alpha2"}},
	"pkg/bundle":            {ours: []string{"pkg/bounded", "pkg/state", "pkg/debug", "pkg/recorder"}},
	"pkg/agents":            {ours: []string{"pkg/controllers"}, others: []string{"k8s.io/"}},
	"pkg/agents/agentstest": {others: []string{"k8s.io/", "github.com/gorilla/websocket", "github.com/stretchr/testify"}},
	"pkg/debug":             {ours: []string{"pkg/bounded", "pkg/debug/places", "pkg/printable", "pkg/state", "pkg/recorder"}, others: []string{"k8s.io/klog/v2"}},
	"pkg/debug/places":      {},
	"pkg/debug/access":      {ours: []string{"pkg/debug/places"}, others: []string{"k8s.io/api/", "k8s.io/apimachinery/", "k8s.io/klog/v2"}},
	"pkg/debug/page":        {ours: []string{"pkg/state", "pkg/explain", "pkg/hns", "pkg/ipsets", "pkg/matrix", "pkg/policy"}, others: []string{"k8s.io/api/", "k8s.io/apimachinery/", "sigs.k8s.io/network-policy-api/apis/v1alpha2", "sigs.k8s.io/yaml"}},
	"pkg/metrics":           {ours: []string{"pkg/hns", "pkg/hns/dllcalls", "pkg/state", "pkg/controllers", "pkg/policy"}, others: []string{"github.com/prometheus/client_golang/prometheus"}},
	"pkg/doctor":            {ours: []string{"pkg/bounded", "pkg/hns"}},
	"pkg/doctor/sockets":    {ours: []string{"pkg/doctor"}, others: []string{"golang.org/x/sys/windows"}},
	"pkg/doctor/likeness":   {ours: []string{"pkg/doctor", "pkg/hns/hnssim"}},
	"pkg/uninstall":         {ours: []string{"pkg/hns", "pkg/hns/canary", "pkg/hns/versioned"}},
	"pkg/nodelock":          {ours: []string{"pkg/processes"}, others: []string{"github.com/gofrs/flock", "golang.org/x/sys/windows"}},
	"pkg/processes":         {ours: []string{"pkg/printable"}, others: []string{"golang.org/x/sys/windows"}},
	"pkg/similar":           {},
	"pkg/gate":              {ours: []string{"pkg/printable"}, others: []string{"k8s.io/klog/v2"}},
	"pkg/gate/pipe":         {ours: []string{"pkg/processes"}, others: []string{"github.com/Microsoft/go-winio", "golang.org/x/sys/windows"}},
	"pkg/gate/gatetest":     {},
	"pkg/hns/hnstest/cnis":  {ours: []string{"pkg/hns", "pkg/hns/hnssim"}},
	"pkg/simulate/manifest": {ours: []string{"pkg/bounded", "pkg/similar"}, others: []string{"k8s.io/api/", "k8s.io/apimachinery/", "sigs.k8s.io/network-policy-api/apis/v1alpha2", "sigs.k8s.io/yaml"}},
	"pkg/simulate": {
		ours:   []string{"pkg/bounded", "pkg/controllers", "pkg/dataplane", "pkg/debug", "pkg/debug/page", "pkg/desired", "pkg/explain", "pkg/hns", "pkg/hns/hnssim", "pkg/matrix", "pkg/policy", "pkg/printable", "pkg/recorder", "pkg/simulate/manifest", "pkg/state", "pkg/whatif"},
		others: []string{"k8s.io/", "sigs.k8s.io/network-policy-api/apis/v1alpha2"},
	},
	"cmd/npm": {
		ours:   []string{"pkg/acl", "pkg/agents", "pkg/backoff", "pkg/bounded", "pkg/bundle", "pkg/conflist", "pkg/controllers", "pkg/controllers/events", "pkg/controllers/reviews", "pkg/dataplane", "pkg/debug", "pkg/debug/access", "pkg/debug/page", "pkg/doctor", "pkg/doctor/sockets", "pkg/explain", "pkg/gate", "pkg/gate/pipe", "pkg/hns", "pkg/hns/canary", "pkg/hns/hcsadapter", "pkg/hns/hcsadapter/shim", "pkg/metrics", "pkg/nodelock", "pkg/policy", "pkg/printable", "pkg/processes", "pkg/recorder", "pkg/replay", "pkg/similar", "pkg/simulate", "pkg/simulate/manifest", "pkg/state", "pkg/uninstall", "pkg/whatif"},
		others: anything,
	},
	"cmd/winnpm-cni": {
		ours:   []string{"pkg/gate", "pkg/gate/pipe", "pkg/printable"},
		others: []string{"github.com/containernetworking/cni/pkg/"},
	},
	"test/oracle":        {others: []string{"k8s.io/api/", "k8s.io/apimachinery/", "sigs.k8s.io/network-policy-api/apis/v1alpha2", "go4.org/netipx"}},
	"test/oracle/tracer": {}, // a second opinion that shares code shares mistakes
}

// never lists what must not be linked in, however long the way to it.
var never = []struct{ pkg, banned, why string }{
	{"pkg/policy", module + "/pkg/hns", "the meaning of a policy knows no HNS"},
	{"pkg/policy", "k8s.io/client-go", "the meaning of a policy knows no cluster"},
	{"pkg/dataplane", "k8s.io/client-go", "controllers talk to the API server"},
	{"pkg/desired", module + "/pkg/endpoints", "what should be does not follow from what HNS has"},
	{"pkg/desired", module + "/pkg/hns/versioned", "what should be is written by others"},
	{"pkg/endpoints", module + "/pkg/dataplane", "the core asks the endpoints, and not the other way round"},
	{"pkg/debug", "k8s.io/client-go", "pages show dumps"},
	{"pkg/debug/access", "k8s.io/client-go", "pkg/controllers/reviews asks the API server"},
	{"pkg/explain", module + "/pkg/dataplane", "an explanation is of a dump"},
	{"pkg/matrix", module + "/pkg/dataplane", "a matrix is of a dump"},
	{"pkg/debug/page", module + "/pkg/dataplane", "pages show dumps"},
	{"pkg/explain", "k8s.io/client-go", "an explanation is of a dump"},
	{"pkg/explain", module + "/pkg/hns/hnssim", "an explanation is of a dump"},
	{"pkg/whatif", "k8s.io/client-go", "what if is asked of values"},
	{"pkg/matrix", module + "/pkg/hns/hnssim", "a matrix is of a dump"},
	{"cmd/npm", "k8s.io/client-go/kubernetes", "it costs a minute of compiling; use a rest client"},
	{"cmd/npm", "k8s.io/client-go/informers", "it costs a minute of compiling; use tools/cache"},
	{"cmd/winnpm-cni", "k8s.io/api", "it starts once for each pod, and has to be small"},
	{"cmd/winnpm-cni", "k8s.io/client-go", "it starts once for each pod, and asks the agent"},
	{"cmd/winnpm-cni", module + "/pkg/hns", "the agent alone writes to HNS (I6)"},
	{"pkg/gate", "github.com/Microsoft/go-winio", "what carries the lines is pkg/gate/pipe"},
	{"test/oracle", module + "/pkg", "an oracle that shares code shares mistakes"},
}

// listed is what go list says of one package.
type listed struct {
	ImportPath    string
	Imports, Deps []string
	GoFiles       []string
}

func (p listed) name() string { return strings.TrimPrefix(p.ImportPath, module+"/") }

func TestImports(t *testing.T) {
	t.Parallel()
	for _, goos := range []string{"linux", "windows"} {
		t.Run(goos, func(t *testing.T) {
			t.Parallel()
			packages := list(t, goos)
			report(t, importProblems(packages))
			for name := range rooms {
				if !slices.ContainsFunc(packages, func(p listed) bool { return p.name() == name }) {
					t.Errorf("%s: is in the table of rooms but not in the tree", name)
				}
			}
		})
	}
}

// importProblems holds packages against rooms and never.
func importProblems(packages []listed) []string {
	var problems []string
	for _, p := range packages {
		name := p.name()
		room, known := rooms[name]
		free := strings.HasPrefix(name, "test/") || name == module // tests of tests, and this file
		if !known && !free && len(p.GoFiles) > 0 {
			problems = append(problems, name+": is not in the table of rooms, add what it may import")
		}
		for _, imported := range p.Imports {
			own, isOwn := strings.CutPrefix(imported, module+"/")
			switch {
			case !known || standard(imported):
			case isOwn && !slices.Contains(room.ours, own):
				problems = append(problems, name+": must not import "+own)
			case !isOwn && !slices.ContainsFunc(room.others, func(prefix string) bool { return strings.HasPrefix(imported, prefix) }):
				problems = append(problems, name+": must not import "+imported)
			}
		}
		for _, rule := range never {
			if i := slices.IndexFunc(p.Deps, under(rule.banned)); name == rule.pkg && i >= 0 {
				problems = append(problems, name+": links "+p.Deps[i]+": "+rule.why)
			}
		}
		// One package calls it, for npm.exe. The suite that runs on Windows makes networks and
		// endpoints with it.
		mayLink := name == shim || name == "cmd/npm" || strings.HasPrefix(name, "test/windows")
		switch {
		case !mayLink && slices.ContainsFunc(p.Deps, under(hcsshim)):
			problems = append(problems, name+": links hcsshim, use hns.Client")
		case name == "cmd/npm" && slices.ContainsFunc(p.Imports, under(hcsshim)):
			problems = append(problems, name+": must not import hcsshim, use "+shim)
		}
	}
	return problems
}

func TestImportProblems(t *testing.T) {
	t.Parallel()
	pkg := func(name string, imports, deps []string) listed {
		return listed{ImportPath: module + "/" + name, Imports: imports, Deps: deps, GoFiles: []string{"a.go"}}
	}
	tests := map[string]struct {
		pkg  listed
		want []string
	}{
		"allowed":         {pkg("pkg/policy", []string{"fmt", module + "/pkg/ipsets", "k8s.io/api/core/v1"}, nil), nil},
		"own":             {pkg("pkg/ipsets", []string{module + "/pkg/hns"}, nil), []string{"pkg/ipsets: must not import pkg/hns"}},
		"foreign":         {pkg("pkg/hns", []string{"go4.org/netipx"}, nil), []string{"pkg/hns: must not import go4.org/netipx"}},
		"linked":          {pkg("pkg/dataplane", nil, []string{"k8s.io/client-go/rest"}), []string{"pkg/dataplane: links k8s.io/client-go/rest: controllers talk to the API server"}},
		"similar path":    {pkg("pkg/dataplane", nil, []string{"k8s.io/client-gopher"}), nil},
		"hcsshim":         {pkg("pkg/debug", nil, []string{hcsshim + "/hcn"}), []string{"pkg/debug: links hcsshim, use hns.Client"}},
		"hcsshim in main": {pkg("cmd/npm", []string{hcsshim + "/hcn"}, []string{hcsshim + "/hcn"}), []string{"cmd/npm: must not import hcsshim, use pkg/hns/hcsadapter/shim"}},
		"shim in main":    {pkg("cmd/npm", []string{module + "/" + shim}, []string{hcsshim + "/hcn"}), nil},
		"shim elsewhere":  {pkg("pkg/uninstall", nil, []string{module + "/" + shim, hcsshim + "/hcn"}), []string{"pkg/uninstall: links hcsshim, use hns.Client"}},
		"hcsshim in test": {pkg("test/windows", nil, []string{hcsshim + "/hcn"}), nil},
		"unknown":         {pkg("pkg/attic", nil, nil), []string{"pkg/attic: is not in the table of rooms, add what it may import"}},
		"test helper":     {pkg("test/helper", []string{module + "/pkg/dataplane"}, nil), nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, importProblems([]listed{tt.pkg}))
		})
	}
}

// list runs go list on the whole module, as it is built for goos.
func list(t *testing.T, goos string) []listed {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports,Deps,GoFiles", "./...")
	cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH=amd64", "CGO_ENABLED=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())

	var packages []listed
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages
		}
		require.NoError(t, err)
		packages = append(packages, p)
	}
}

// standard tells the standard library by its first element, which has no dot.
func standard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}

// under matches a package and all below it.
func under(path string) func(string) bool {
	return func(p string) bool { return p == path || strings.HasPrefix(p, path+"/") }
}

// report prints every problem on a line of its own.
func report(t *testing.T, problems []string) {
	t.Helper()
	for _, problem := range problems {
		t.Error(problem)
	}
}

package simulate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/winnpm/winnpm/pkg/cli"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/effort"
	"github.com/winnpm/winnpm/tool/cluster"
	"github.com/winnpm/winnpm/tool/explain"
	"github.com/winnpm/winnpm/tool/manifest"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

const small = "testdata/small.yaml"

// document is a result as a script reads it.
type document struct {
	Sets      []Set              `json:"sets"`
	Endpoints []Endpoint         `json:"endpoints"`
	Verdicts  []Verdict          `json:"verdicts"`
	Workloads []explain.Workload `json:"workloads"`
	Calls     map[string]int     `json:"calls"`
	Warnings  []state.Warning    `json:"warnings"`
}

// once runs the command and returns what it printed.
func once(t *testing.T, o Options) (code int, stdout, stderr string) {
	t.Helper()
	return ended(t.Context(), o)
}

// ended runs the command and returns what a program prints, with the lines of its error.
func ended(ctx context.Context, o Options) (code int, stdout, stderr string) {
	var out bytes.Buffer
	if o.Stdout == nil {
		o.Stdout = &out
	}
	var end cli.Exit
	if errors.As(Run(ctx, o), &end) && end.Err != nil {
		for _, line := range manifest.Lines(end.Err) {
			stderr += "npm: " + line + "\n"
		}
	}
	return end.Code, out.String(), stderr
}

// onceJSON is once for a run that is expected to print a result.
func onceJSON(t *testing.T, o Options) (int, document) {
	t.Helper()
	o.Output = "json"
	code, stdout, stderr := once(t, o)
	require.Empty(t, stderr)
	var d document
	dec := json.NewDecoder(strings.NewReader(stdout))
	dec.DisallowUnknownFields()
	require.NoError(t, dec.Decode(&d), stdout)
	require.False(t, dec.More())
	// Only a side that is not judged, and the verdict without it, is null, a list never.
	require.NotContains(t, strings.NewReplacer(`"allowed":null`, "", `"ingress":null`, "", `"egress":null`, "").Replace(stdout), "null")
	return code, d
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	path := filepath.Join("testdata", file)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(string(want), got))
}

func TestGolden(t *testing.T) {
	o := Options{
		Options: cluster.Options{Manifests: []string{small}},
		Matrix:  []string{"5432/tcp", "80/TCP"},
		Trace:   []string{"x/web->x/db:5432/TCP", "10.9.0.1->x/db:1/UDP", "x/db->8.8.8.8:53/UDP"},
	}
	code, text, stderr := once(t, o)
	require.Equal(t, cli.ExitOK, code)
	require.Empty(t, stderr)
	golden(t, "small.txt", text)

	o.Output = "json"
	code, text, stderr = once(t, o)
	require.Equal(t, cli.ExitOK, code)
	require.Empty(t, stderr)
	var indented bytes.Buffer
	require.NoError(t, json.Indent(&indented, []byte(text), "", "  "))
	golden(t, "small.json", indented.String())
}

// TestExitCodes: what ends a run from without. The scripts of cmd/kubectl-npm have the others.
func TestExitCodes(t *testing.T) {
	code, _, stderr := once(t, Options{Options: cluster.Options{Manifests: []string{small}, Kubeconfig: "f"}})
	require.Equal(t, cli.ExitUsage, code)
	require.Equal(t, "npm: simulate: --manifests and --kubeconfig exclude each other: give one of them\n", stderr)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	code, _, stderr = ended(ctx, Options{Options: cluster.Options{Manifests: []string{small}}})
	require.Equal(t, cli.ExitBadInput, code)
	require.Equal(t, "npm: simulate: interrupted before the first convergence\n", stderr)

	code, _, stderr = once(t, Options{Options: cluster.Options{Manifests: []string{small}}, Stdout: closed{}})
	require.Equal(t, cli.ExitBadInput, code)
	require.Equal(t, "npm: simulate: closed\n", stderr)
}

type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, errors.New("closed") }

func TestExamples(t *testing.T) {
	code, d := onceJSON(t, Options{Options: cluster.Options{Manifests: []string{"../../examples/shop"}}, Matrix: []string{"80/TCP"}, All: true})
	require.Equal(t, cli.ExitOK, code)
	require.Empty(t, d.Warnings)
	n := 0
	for _, e := range d.Endpoints {
		require.NotEmpty(t, e.Pod)
		n++
	}
	require.Len(t, d.Verdicts, n*(n-1))

	code, d = onceJSON(t, Options{Options: cluster.Options{Manifests: []string{"../../examples/limits"}}})
	require.Equal(t, ExitIncomplete, code)
	require.NotEmpty(t, d.Warnings)
}

func TestWarningsOfTheLoaderCome(t *testing.T) {
	file := filepath.Join(t.TempDir(), "m.yaml")
	require.NoError(t, os.WriteFile(file, []byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: s}}"), 0o600))
	code, d := onceJSON(t, Options{Options: cluster.Options{Manifests: []string{file}}})
	require.Equal(t, cli.ExitOK, code)
	require.Len(t, d.Warnings, 1)
	require.Equal(t, "ConfigMap", d.Warnings[0].Kind)
	require.Equal(t, manifest.SkippedKind, d.Warnings[0].Reason)
}

func TestManyPodsAreQuick(t *testing.T) {
	pods := effort.Of(500, 2000)
	var b strings.Builder
	fmt.Fprintf(&b, "{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {replicas: %d, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}}\n---\n", pods)
	b.WriteString("{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: p}, spec: {podSelector: {}}}\n")
	code, d := onceJSON(t, Options{Options: cluster.Options{Manifests: []string{"-"}, Stdin: strings.NewReader(b.String())}})
	require.Equal(t, cli.ExitOK, code)
	require.Len(t, d.Endpoints, pods)
	require.Equal(t, pods, d.Calls["ACL/Add"])
	require.Equal(t, 1, d.Calls["Endpoint/Enumerate"])
}

package simulate

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/cli"
	"github.com/winnpm/winnpm/tool/cluster"
)

// TestWorkloadsSpeakForTheirPods: a matrix of workloads says for every pair of pods what one
// of pods says, and a person is shown what a program reads.
func TestWorkloadsSpeakForTheirPods(t *testing.T) {
	for _, o := range []Options{
		{Options: cluster.Options{Manifests: []string{"../../examples/shop"}}},
		{Options: cluster.Options{Manifests: []string{"../../examples/shop"}, Node: "win-1"}},
		{Options: cluster.Options{Manifests: []string{"../../examples/tiers"}}},
		{Options: cluster.Options{Manifests: []string{"../explain/testdata/cluster.yaml"}}},
	} {
		o.Matrix = []string{"80/TCP", "53/UDP"}
		_, few := onceJSON(t, o)
		of := map[string]string{}
		for _, w := range few.Workloads {
			for _, p := range w.Pods {
				of[p] = w.Name
			}
		}
		says := map[string]string{}
		for _, v := range few.Verdicts {
			from, to := v.From, v.To
			v.From, v.To = "", ""
			says[fmt.Sprintf("%s %s %d", from, to, v.Port)] = line(v)
		}
		o.All = true
		_, many := onceJSON(t, o)
		require.Empty(t, many.Workloads)
		require.NotEmpty(t, many.Verdicts)
		for _, v := range many.Verdicts {
			key := fmt.Sprintf("%s %s %d", of[v.From], of[v.To], v.Port)
			v.From, v.To = "", ""
			require.Equal(t, says[key], line(v), key)
		}
		require.LessOrEqual(t, len(says), len(many.Verdicts))
	}
}

// TestMatrixIsCountedFirst: what would take minutes is refused before a line of it, and
// workloads make it small.
func TestMatrixIsCountedFirst(t *testing.T) {
	o := Options{Options: cluster.Options{Manifests: []string{"-"}}, Matrix: slices.Repeat([]string{"80/TCP"}, 100), All: true}
	o.Stdin = strings.NewReader(thousands(200))
	code, stdout, stderr := once(t, o)
	require.Equal(t, cli.ExitBadInput, code)
	require.Empty(t, stdout)
	require.Equal(t, "npm: simulate: --matrix: 201 rows are 40401 pairs for each port, more than 4000000 in all: "+
		"leave out --all, give --node, or ask kubectl npm trace for a pair\n", stderr)

	o.All, o.Stdin = false, strings.NewReader(thousands(200))
	code, stdout, _ = once(t, o)
	require.Equal(t, cli.ExitOK, code)
	require.Contains(t, stdout, "\nMATRIX 80/TCP, 2 workloads of 201 pods: ")
}

// TestMatrixOfPodsIsAskedFor: one row for a Deployment, unless each pod is wanted.
func TestMatrixOfPodsIsAskedFor(t *testing.T) {
	_, d := onceJSON(t, Options{Options: cluster.Options{Manifests: []string{"-"}, Stdin: strings.NewReader(thousands(3))}, Matrix: []string{"80/TCP"}})
	require.Equal(t, []string{"x/apart->x/d", "x/d->x/apart", "x/d->x/d"}, pairsOf(d.Verdicts))
	_, d = onceJSON(t, Options{Options: cluster.Options{Manifests: []string{"-"}, Stdin: strings.NewReader(thousands(3))}, Matrix: []string{"80/TCP"}, All: true})
	require.Len(t, d.Verdicts, 4*3)
}

func pairsOf(vs []Verdict) []string {
	out := []string{}
	for _, v := range vs {
		out = append(out, v.From+"->"+v.To)
	}
	return out
}

// thousands is a Deployment of so many pods and one pod beside it, with a policy.
func thousands(replicas int) string {
	return fmt.Sprintf("{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, namespace: x}, spec: {replicas: %d, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}}\n---\n"+
		"{apiVersion: v1, kind: Pod, metadata: {name: apart, namespace: x}, spec: {containers: [{name: c, image: i}]}}\n---\n"+
		"{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: p, namespace: x}, spec: {podSelector: {matchLabels: {a: b}}, ingress: [{from: [{podSelector: {matchLabels: {a: b}}}]}]}}\n", replicas)
}

package explain_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/cluster"
	"github.com/winnpm/winnpm/tool/explain"
)

// snapshotOf returns the dump of manifests, as a node sees it.
func snapshotOf(t *testing.T, node, manifests string) (state.Dump, explain.Places) {
	t.Helper()
	d, places, err := cluster.Snapshot(t.Context(), cluster.Options{Manifests: []string{"-"}, Stdin: strings.NewReader(manifests), Node: node})
	require.NoError(t, err)
	return d, places
}

// TestContestedAddress: the answer names who claims the address and whose policies
// block, and suggests no label that would not help.
func TestContestedAddress(t *testing.T) {
	d, places := snapshotOf(t, "", `
{apiVersion: v1, kind: Pod, metadata: {namespace: x, name: victim}, spec: {containers: [{name: c, image: i}]}, status: {phase: Running, podIP: 10.0.0.1}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: t, name: thief}, spec: {containers: [{name: c, image: i}]}, status: {phase: Running, podIP: 10.0.0.1}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: x, name: other}, spec: {containers: [{name: c, image: i}]}, status: {phase: Running, podIP: 10.0.0.2}}
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {namespace: x, name: friends}, spec: {podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {a: b}}}]}]}}
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {namespace: t, name: deny}, spec: {podSelector: {}}}
`)
	for _, name := range []string{"x/victim", "t/thief", "10.0.0.1"} {
		a, err := explain.Explain(d, explain.Question{From: "x/other", To: name, Port: 80, Protocol: policy.TCP}, places)
		require.NoError(t, err)
		require.Equal(t, explain.Blocked, a.Verdict)
		require.Contains(t, a.Ingress.Note, "10.0.0.1 is claimed by t/thief, x/victim, of several namespaces")
		require.Equal(t, []string{"t/deny", "x/friends"}, a.Ingress.Isolating)
		require.Empty(t, a.Ingress.Misses)
		back, err := explain.Explain(d, explain.Question{From: name, To: "x/other", Port: 80, Protocol: policy.TCP}, places)
		require.NoError(t, err)
		require.Equal(t, explain.Blocked, back.Verdict)
		require.Empty(t, back.Ingress.Misses)
		require.Contains(t, back.Egress.Note, "is claimed by")
	}
}

// TestContestedIsNotAllowed: what is allowed to an address is not known to be allowed to a pod that
// another one may have taken it from. What is blocked is, and the owner and the address have
// their verdicts.
func TestContestedIsNotAllowed(t *testing.T) {
	d, places := snapshotOf(t, "", `
{apiVersion: v1, kind: Pod, metadata: {namespace: x, name: before}, spec: {containers: [{name: c, image: i}]}, status: {phase: Running, podIP: 10.0.0.1, startTime: "2026-01-01T00:00:00Z"}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: x, name: after}, spec: {containers: [{name: c, image: i}]}, status: {phase: Running, podIP: 10.0.0.1, startTime: "2026-02-01T00:00:00Z"}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: x, name: doubted}, spec: {containers: [{name: c, image: i}]}, status: {phase: Running, podIP: 10.0.0.3}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: z, name: thief}, spec: {containers: [{name: c, image: i}]}, status: {phase: Running, podIP: 10.0.0.3}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: x, name: other}, spec: {containers: [{name: c, image: i}]}, status: {phase: Running, podIP: 10.0.0.2}}
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {namespace: x, name: only80}, spec: {podSelector: {}, ingress: [{ports: [{port: 80}]}]}}
`)
	for name, verdict := range map[string]explain.Verdict{
		"x/before": explain.Unknown, "x/after": explain.Allowed, "10.0.0.1": explain.Allowed,
		"x/doubted": explain.Unknown, "z/thief": explain.Unknown, "10.0.0.3": explain.Allowed,
	} {
		for _, q := range []explain.Question{{From: "x/other", To: name}, {From: name, To: "x/other"}} {
			q.Port, q.Protocol = 80, policy.TCP
			a, err := explain.Explain(d, q, places)
			require.NoError(t, err)
			require.Equal(t, verdict, a.Verdict, q)
			require.Equal(t, verdict == explain.Unknown, a.Egress.Contested || a.Ingress.Contested, q)
			var text strings.Builder
			require.NoError(t, a.WriteText(&text))
			said := "\n" + name + " may not own its address: the verdict for the address may be wrong for the pod.\n"
			require.Equal(t, verdict == explain.Unknown, strings.Contains(text.String(), said), text.String())
			joined := explain.Join(a, a)
			require.Equal(t, verdict, joined.Verdict, q)
			q.Port = 81
			a, err = explain.Explain(d, q, places)
			require.NoError(t, err)
			require.Equal(t, explain.Blocked, a.Verdict, q)
		}
	}
}

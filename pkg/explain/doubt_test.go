package explain_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/explain"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/simulate"
)

// TestContestedAddress: the answer names who claims the address and whose policies
// block, and suggests no label that would not help.
func TestContestedAddress(t *testing.T) {
	file := filepath.Join(t.TempDir(), "m.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`
{apiVersion: v1, kind: Pod, metadata: {namespace: x, name: victim}, spec: {containers: [{name: c, image: i}]}, status: {phase: Running, podIP: 10.0.0.1}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: t, name: thief}, spec: {containers: [{name: c, image: i}]}, status: {phase: Running, podIP: 10.0.0.1}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: x, name: other}, spec: {containers: [{name: c, image: i}]}, status: {phase: Running, podIP: 10.0.0.2}}
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {namespace: x, name: friends}, spec: {podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {a: b}}}]}]}}
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {namespace: t, name: deny}, spec: {podSelector: {}}}
`), 0o600))
	d, places, err := simulate.Snapshot(t.Context(), simulate.Options{Manifests: []string{file}})
	require.NoError(t, err)
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

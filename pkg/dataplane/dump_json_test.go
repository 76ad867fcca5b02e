package dataplane_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/desired"
)

// TestDumpHasNoNull: scripts read the dump's JSON; a list without entries is []
// there.
func TestDumpHasNoNull(t *testing.T) {
	w := dWorld(t, policyText("p", `{podSelector: {matchLabels: {app: nobody}}, ingress: [{from: [{podSelector: {matchLabels: {app: none}}}]}]}`))
	w.do("policy p", "pod x/waits 10.0.0.9", "fault ACL/Add ep-1 refuse", "apply",
		"pod x/w1 10.0.0.1 app=nobody", "! apply")
	text, err := json.Marshal(w.dp.Dump())
	require.NoError(t, err)
	require.NotContains(t, string(text), "null")
	require.Contains(t, string(text), `"members":[]`)
}

// TestDumpIsEnoughToBeginFrom: who owns an address and when a set goes follow
// from the dump.
func TestDumpIsEnoughToBeginFrom(t *testing.T) {
	w := newWorld(t, policyText("p", `{podSelector: {matchLabels: {app: db}}, ingress: [{from: [{podSelector: {matchLabels: {app: web}}}]}]}`))
	w.do("dataplane grace=5m", "namespace x", "endpoint ep 10.0.0.1", "pod x/db 10.0.0.1 app=db", "pod x/web 10.0.0.2 app=web remote", "policy p", "apply",
		"advance 1m", "delete policy x/p", "apply")
	set := setOf(t, w.dp.Dump(), "podlabel-app:web")
	require.True(t, set.InHNS)
	require.Equal(t, w.now, set.Spare)

	pod := desired.Pod{Namespace: "x", Name: "late", UID: "u", Deleting: true, Started: w.now, Created: w.now.Add(-time.Second)}
	tx := dataplane.NewTransaction()
	tx.SetPod(pod)
	_, err := w.dp.ApplyDataplane(t.Context(), tx)
	require.NoError(t, err)
	got := w.dp.Dump().Pods[1]
	require.Equal(t, "x/late", got.Pod)
	require.Equal(t, []any{true, pod.Started, pod.Created}, []any{got.Deleting, got.Started, got.Created})
}

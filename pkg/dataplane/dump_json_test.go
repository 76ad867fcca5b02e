package dataplane_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDumpHasNoNull: scripts read the dump's JSON; a list without entries is []
// there.
func TestDumpHasNoNull(t *testing.T) {
	w := dWorld(t)
	w.do(`policy x/p {podSelector: {matchLabels: {app: nobody}}, ingress: [{from: [{podSelector: {matchLabels: {app: none}}}]}]}`, "pod x/waits 10.0.0.9", "fault ACL/Add ep-1 refuse", "apply",
		"pod x/w1 10.0.0.1 app=nobody", "! apply")
	text, err := json.Marshal(w.dp.Dump())
	require.NoError(t, err)
	require.NotContains(t, string(text), "null")
	require.Contains(t, string(text), `"members":[]`)
}

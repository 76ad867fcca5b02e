//go:build linux

package agent

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/replay"
	"github.com/winnpm/winnpm/test/windows/hnsd"
)

// What one call of HNS did wrong to npm.exe is what a replay of its bundle finds
// elsewhere, and nothing else.
func TestFailedCallReplays(t *testing.T) {
	const (
		noSuchService = 0x800706BA
		unspecified   = 0x80004005
		invalidPolicy = 0x803B000D
	)
	setWrites := []string{hns.OpSets(hns.Add), hns.OpSets(hns.Update)} // the pod and the policy may come one by one
	for _, tc := range []struct {
		name  string
		fault hnsd.Fault
		ops   []string // one of which it was
		class error
		done  bool // all the same, which the replay notes
	}{
		{"the reply to a set write is lost", hnsd.Fault{Proc: "HcnModifyNetwork", Code: unspecified, Done: true}, setWrites, hns.ErrUnlisted, true},
		{"the service is gone for a set write", hnsd.Fault{Proc: "HcnModifyNetwork", Code: noSuchService}, setWrites, hns.ErrUnavailable, false},
		{"ACLs are refused", hnsd.Fault{Proc: "HcnModifyEndpoint", Code: invalidPolicy}, []string{hns.OpACLAdd}, hns.ErrInvalid, false},
		{"endpoints cannot be listed", hnsd.Fault{Proc: "HcnEnumerateEndpoints", Code: noSuchService}, []string{hns.OpEndpointIDs}, hns.ErrUnavailable, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := begin(t)
			h := newHost(t, azure())
			w := shop(t, h)
			n := start(t, ownNode, h.addr, options{flags: calm})
			n.waitReady()
			h.waitVerdicts(w.kube, ownAddr)
			h.Inject(tc.fault)
			w.local(h, "late", lateAddr)
			w.policy("shop", "late", `{podSelector: {matchLabels: {app: late}}, ingress: [{from: [{podSelector: {matchLabels: {app: peer}}}]}]}`)
			eventually(t, settle, func() string {
				if len(h.UnusedFaults()) > 0 {
					return fmt.Sprintf("the call was not made: %v", h.Counts())
				}
				return ""
			})
			h.waitVerdicts(w.kube, ownAddr)
			n.waitReady()

			npm, bundle := filepath.Join(p.bin, "npm"), filepath.Join(t.TempDir(), "bundle.zip")
			said, err := exec.CommandContext(t.Context(), npm, "support-bundle", "--server", n.url, "-o", bundle).CombinedOutput()
			require.NoError(t, err, string(said))
			out, err := exec.CommandContext(t.Context(), npm, "replay", bundle, "-o", "json").Output()
			var exited *exec.ExitError
			require.ErrorAs(t, err, &exited)
			require.Equal(t, 3, exited.ExitCode(), string(exited.Stderr))
			var result replay.Result
			require.NoError(t, json.Unmarshal(out, &result))
			text, _ := exec.CommandContext(t.Context(), npm, "replay", bundle).Output() // it ends with 3 as well
			t.Logf("%s", text)

			var found []replay.Finding
			notes := 0
			for _, s := range result.Steps {
				for _, f := range s.Findings {
					if f.Kind == replay.Note {
						notes++
						continue
					}
					found = append(found, f)
					require.Contains(t, s.Calls[f.Call-1].Error, fmt.Sprintf("%v", tc.class))
				}
			}
			require.Len(t, found, 1)
			require.Equal(t, replay.Answer, found[0].Kind)
			require.Contains(t, tc.ops, found[0].Op)
			require.Contains(t, found[0].Text, fmt.Sprintf("0x%08x", tc.fault.Code))
			require.Equal(t, tc.done, notes > 0)
			require.Equal(t, 1, result.Differences, "the end is as in the dump")
		})
	}
}

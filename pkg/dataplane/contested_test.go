package dataplane_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/hnsfault"
)

// Namespace x: web is reached by api alone and peer by web alone; namespace z is closed.
const (
	theftWeb  = `policy x/web {podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchLabels: {app: api}}}]}]}`
	theftPeer = `policy x/peer {podSelector: {matchLabels: {app: peer}}, ingress: [{from: [{podSelector: {matchLabels: {app: web}}}]}]}`
	theftZ    = `policy z/z {podSelector: {}, policyTypes: [Ingress, Egress]}`
)

const (
	victim   = "pod x/v 10.0.0.1 app=web"
	fromAPI  = "trace 10.0.1.1 -> 10.0.0.1 TCP/80 ep in "
	fromAny  = "trace 10.9.9.9 -> 10.0.0.1 TCP/80 ep in "
	outToAny = "trace 10.0.0.1 -> 10.9.9.9 TCP/80 ep out "
	toPeer   = "trace 10.0.0.1 -> 10.0.0.9 TCP/80 ep-9 in "
)

func theftWorld(t *testing.T) *world {
	w := newWorld(t)
	w.do("namespace x", "namespace y", "namespace z", "endpoint ep 10.0.0.1", "endpoint ep-9 10.0.0.9",
		"pod x/peer 10.0.0.9 app=peer", "pod x/api 10.0.1.1 app=api remote", theftWeb, theftPeer, theftZ, "apply")
	return w
}

// TestStolenAddress: somebody else reports the address of a pod of this node, before it,
// after it, or at once with it, and goes again. Its endpoint is never open, and what
// the thief has at the end is nothing.
func TestStolenAddress(t *testing.T) {
	for title, tc := range map[string]struct {
		victim, thief       string
		api, any, out, peer string // verdicts while both claim the address
		warning             string
		quiet               bool // the thief's coming writes nothing
	}{
		"a pod of another node, that starts in 200 years": {
			thief: "pod y/t 10.0.0.1 remote started=2000000h", api: "allow", any: "block", out: "allow", peer: "allow", quiet: true,
			warning: "claimed by x/v, y/t (on another node): it counts as that of x/v, which runs here",
		},
		"a pod of another node and the same namespace": {
			thief: "pod x/t 10.0.0.1 app=api remote", api: "allow", any: "block", out: "allow", peer: "allow", quiet: true,
			warning: "claimed by x/v, x/t (on another node): it counts as that of x/v, which runs here",
		},
		"a pod of another node, while the pod terminates": {
			victim: victim + " deleting",
			thief:  "pod y/t 10.0.0.1 remote", api: "allow", any: "block", out: "allow", peer: "block",
		},
		"a pod of this node, which is open": {
			thief: "pod y/t 10.0.0.1", api: "allow", any: "block", out: "allow", peer: "block", warning: "until only one of them claims it",
		},
		"a pod of this node, which is closed": {
			thief: "pod z/t 10.0.0.1", api: "block", any: "block", out: "block", peer: "block", warning: "until only one of them claims it",
		},
		"a pod of this node, that starts in 200 years": {
			thief: "pod y/t 10.0.0.1 started=2000000h", api: "allow", any: "block", out: "allow", peer: "block", warning: "claimed by x/v, y/t: until only one of them claims it",
		},
	} {
		victim := cmp.Or(tc.victim, victim)
		during := []string{fromAPI + tc.api, fromAny + tc.any, outToAny + tc.out, toPeer + tc.peer}
		alone := []string{fromAPI + "allow", fromAny + "block", outToAny + "allow", toPeer + "allow"}
		contested := func(w *world) {
			w.t.Helper()
			w.do(during...)
			var got []string
			for _, warning := range w.report.Warnings {
				require.Equal(w.t, state.ReasonAddressContested, warning.Reason)
				require.Equal(w.t, "Pod", warning.Kind)
				got = append(got, warning.Message)
			}
			if tc.warning == "" {
				require.Empty(w.t, got)
			} else {
				require.Len(w.t, got, 1)
				require.Contains(w.t, got[0], tc.warning)
			}
		}
		gone := func(w *world) {
			w.t.Helper()
			w.do("delete pod "+strings.Fields(tc.thief)[1], "apply")
			w.do(alone...)
			require.Empty(w.t, w.report.Warnings)
		}
		t.Run(title+", after it", func(t *testing.T) {
			w := theftWorld(t)
			w.do(victim, "apply")
			w.do(alone...)
			w.neverOpen()
			w.do("wait 1s", tc.thief, "apply")
			if tc.quiet {
				require.Zero(t, w.writes())
			}
			contested(w)
			gone(w)
		})
		t.Run(title+", before it", func(t *testing.T) {
			w := theftWorld(t)
			w.do("wait 1s", tc.thief, "apply", victim, "apply")
			contested(w)
			w.neverOpen()
			gone(w)
		})
		t.Run(title+", at once", func(t *testing.T) {
			w := theftWorld(t)
			w.do("wait 1s", tc.thief, victim, "apply")
			contested(w)
			gone(w)
		})
		t.Run(title+", and stays", func(t *testing.T) {
			w := theftWorld(t)
			w.do(victim, tc.thief, "apply", "delete pod x/v", "apply")
			require.Empty(t, w.report.Warnings)
			w.do(toPeer + "block")
		})
	}
}

// TestContestedElsewhere: if pods of two other nodes claim an address, there is one warning. A claim
// from a lost node, or from outside the podCIDRs of its node, loses to a better claim. Without a
// rival it is valid.
func TestContestedElsewhere(t *testing.T) {
	const to = "trace 10.0.1.1 -> 10.0.0.1 TCP/80 ep in "
	w := theftWorld(t)
	rivals := [][2]string{{"x", "api"}, {"y", "t"}}
	w.do(victim, "apply", "wait 1s", "pod y/t 10.0.1.1 remote", "apply", to+"block")
	require.Len(t, w.report.Warnings, 1)
	warning := w.report.Warnings[0]
	require.Equal(t, state.Warning{Object: "y/t", Kind: desired.RemotePod, Reason: state.ReasonAddressContested, Message: warning.Message}, warning)
	require.Contains(t, warning.Message, "address 10.0.1.1 is claimed by y/t (on another node), x/api (on another node): ")
	require.Equal(t, rivals, w.report.Rivals)
	require.Empty(t, w.dp.Selecting(desired.PodKey{Namespace: "y", Name: "t"}))
	w.do("pod x/api 10.0.1.1 app=web remote", "apply")
	require.Equal(t, []policy.Key{{Namespace: "x", Name: "web"}}, w.dp.Selecting(desired.PodKey{Namespace: "x", Name: "api"}), "its owner gets an Event")
	require.Empty(t, w.dp.Selecting(desired.PodKey{Namespace: "x", Name: "none"}))

	for _, trust := range []string{"1", "2"} { // against one that is inside
		w.do("pod y/t 10.0.1.1 remote trust="+trust, "pod x/api 10.0.1.1 app=api remote trust=-1", "apply", to+"allow")
		require.Empty(t, w.report.Warnings)
		require.Equal(t, rivals, w.report.Rivals, "they are judged as long as both are there")
	}
	w.do("pod x/api 10.0.1.1 app=api remote trust=1", "pod y/t 10.0.1.1 remote", "apply", to+"block")
	require.Len(t, w.report.Warnings, 1, "one is outside, of the other nothing is known")
	w.do("pod x/api 10.0.1.1 app=api remote trust=2", "pod y/t 10.0.1.1 remote trust=2", "apply", to+"block")
	require.Len(t, w.report.Warnings, 1, "both are lost")
	w.do("delete pod y/t", "apply", to+"allow")
	require.Empty(t, w.report.Warnings, "a lost one without a rival")
	require.Empty(t, w.report.Rivals)
}

// TestManyContestedElsewhere: the numbers of warnings and of judged pods are bounded. The choice of
// the judged pods does not depend on their Trust.
func TestManyContestedElsewhere(t *testing.T) {
	w := theftWorld(t)
	for i := range 600 {
		w.do(fmt.Sprintf("pod x/r%03d 10.1.%d.%d remote", i, i/250, 1+i%250), fmt.Sprintf("pod y/r%03d 10.1.%d.%d remote", i, i/250, 1+i%250))
	}
	w.do("apply")
	require.Len(t, w.report.Warnings, 64)
	require.Contains(t, fmt.Sprint(w.report.Warnings), "(and 536 more addresses are contested)")
	before := w.report.Rivals
	require.Len(t, before, 1024)
	w.do("pod x/r000 10.1.0.1 remote trust=2", "apply")
	require.Equal(t, before, w.report.Rivals)
	require.Contains(t, fmt.Sprint(w.report.Warnings), "(and 535 more addresses are contested)")
}

// TestNobodysAddress: what no pod can have is in no set, whoever reports it, nor are
// the node's own addresses, as soon as they are known. A pod of this node with such an
// address is told of.
func TestNobodysAddress(t *testing.T) {
	members := func(w *world) string {
		var out []string
		for _, s := range w.sim.Sets() {
			out = append(out, s.Values...)
		}
		return strings.Join(out, " ")
	}
	for _, addr := range []string{"0.0.0.0", "0.1.2.3", "127.0.0.1", "169.254.169.254", "224.0.0.1", "255.255.255.255", "10.1.0.4", "10.1.0.5"} {
		for _, where := range []string{"", " remote"} {
			t.Run(addr+where, func(t *testing.T) {
				w := theftWorld(t)
				w.do(victim, "node 10.1.0.4 10.1.0.5", "apply", "pod x/t "+addr+" app=api"+where, "apply")
				require.NotContains(t, members(w), addr)
				for _, p := range w.dp.Dump().Pods {
					require.False(t, p.Pod == "x/t" && p.Owner)
				}
				if where != "" {
					require.Empty(t, w.report.Warnings)
					return
				}
				require.Len(t, w.report.Warnings, 1)
				require.Equal(t, "x/t", w.report.Warnings[0].Object)
				require.Contains(t, w.report.Warnings[0].Message, addr+", which no pod can have")
				w.do("delete pod x/t", "apply")
				require.Empty(t, w.report.Warnings)
			})
		}
	}
	w := theftWorld(t)
	w.do(victim, "pod x/t 10.1.0.4 app=api remote", "apply")
	require.Contains(t, members(w), "10.1.0.4")
	for _, node := range []string{"10.1.0.4", "10.1.0.3 10.1.0.4", "10.1.0.4 10.1.0.9"} {
		w.do("node "+node, "apply")
		require.NotContains(t, members(w), "10.1.0.4", node)
		w.do("node 10.1.0.5", "apply")
		require.Contains(t, members(w), "10.1.0.4")
	}
}

// TestManyThieves: there is one warning for an address, and it names a few.
func TestManyThieves(t *testing.T) {
	w := theftWorld(t)
	w.do(victim, "apply")
	for i := range 50 {
		w.do(fmt.Sprintf("pod y/t%d 10.0.0.1 remote", i))
	}
	w.do("apply")
	require.Zero(t, w.writes())
	require.Len(t, w.report.Warnings, 1)
	require.Contains(t, w.report.Warnings[0].Message, " and 47 more: ")
	require.True(t, slices.Equal(w.report.Warnings, w.dp.Dump().Warnings))
}

// neverOpen: no write lets a stranger in at the endpoint.
func (w *world) neverOpen() {
	w.t.Helper()
	require.Equal(w.t, []hnsfault.Outcome{hnsfault.Denied}, w.sim.Watch(probe{Endpoint: "ep", Direction: hns.In, Packet: packet("10.9.9.9", "10.0.0.1", 80)}))
	w.t.Cleanup(func() {
		for _, x := range w.sim.Transitions() {
			require.NotEqual(w.t, hnsfault.Allowed, x.To, "%s", w.sim.Dump())
		}
	})
}

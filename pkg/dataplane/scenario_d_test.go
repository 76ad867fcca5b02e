package dataplane_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/hnsfault"
)

// dWorld is three local web pods and some peers.
func dWorld(t *testing.T) *world {
	w := newWorld(t)
	w.do("endpoint ep-1 10.0.0.1", "endpoint ep-2 10.0.0.2", "endpoint ep-3 10.0.0.3")
	dObjects(w)
	w.do("apply")
	return w
}

// dPeers are the addresses of the remote pods, and one that is no pod's.
var dPeers = []string{"10.0.1.1", "10.0.1.2", "10.0.1.3", "10.0.1.4", "10.9.9.9"}

// TestScenario_D1_PolicyEdited: one ACL write per endpoint, and after each
// single write every verdict is the one before or the one after.
func TestScenario_D1_PolicyEdited(t *testing.T) {
	specs := map[string]string{
		"one port":   `{podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchLabels: {app: api}}}], ports: [{port: 80}]}]}`,
		"other port": `{podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchLabels: {app: api}}}], ports: [{port: 81}]}]}`,
		"other peer": `{podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchLabels: {app: db}}}], ports: [{port: 80}]}]}`,
		"namespace":  `{podSelector: {matchLabels: {app: web}}, ingress: [{from: [{namespaceSelector: {matchLabels: {kind: evil}}}]}]}`,
		"cidr":       `{podSelector: {matchLabels: {app: web}}, ingress: [{from: [{ipBlock: {cidr: 10.0.1.0/24, except: [10.0.1.3/32]}}]}]}`,
		"egress":     `{podSelector: {matchLabels: {app: web}}, policyTypes: [Egress], egress: [{to: [{podSelector: {matchLabels: {app: db}}}]}]}`,
		"deny":       `{podSelector: {matchLabels: {app: web}}, policyTypes: [Ingress, Egress]}`,
	}
	names := slices.Sorted(maps.Keys(specs))
	ends := map[string]*world{} // by spec
	for name, spec := range specs {
		ends[name] = dWorld(t)
		ends[name].do("policy x/p "+spec, "apply")
	}
	for _, from := range names {
		for _, to := range names {
			if from == to {
				continue
			}
			t.Run(from+" to "+to, func(t *testing.T) {
				w := dWorld(t)
				w.do("policy x/p "+specs[from], "apply")
				all := probes(w.sim, dPeers, 80, 81, 443)
				before := verdicts(t, w.sim, all)

				end := ends[to]
				after := verdicts(t, end.sim, all)
				stop := watchI4(t, w.sim, before, after)
				w.do("policy x/p "+specs[to], "apply")
				require.Positive(t, stop())
				for _, ep := range []string{"ep-1", "ep-2", "ep-3"} {
					require.Equal(t, 1, aclWrites(w.sim, ep), ep)
				}
				require.Empty(t, cmp.Diff(end.sim.Dump(), w.sim.Dump()))
			})
		}
	}
}

// aclWrites counts the ACL writes of an endpoint since the last apply began.
func aclWrites(sim *hnsfault.Sim, ep string) int {
	n := 0
	for _, c := range sim.Calls() {
		if strings.HasPrefix(c.Op, "ACL/") && c.Target == ep {
			n++
		}
	}
	return n
}

// TestScenario_D7_EditCannotBeExpressed: the old rules are gone, isolation
// stays, the report says why.
func TestScenario_D7_EditCannotBeExpressed(t *testing.T) {
	for name, tc := range map[string]struct {
		spec   string
		reason state.Reason
	}{
		"IPv6 peer":      {`{podSelector: {matchLabels: {app: web}}, ingress: [{from: [{ipBlock: {cidr: "2001:db8::/32"}}]}]}`, "IPv6Peer"},
		"refused by HNS": {`{podSelector: {matchLabels: {app: web}}, ingress: [{ports: [{protocol: SCTP, port: 80}]}]}`, state.ReasonHNSRejected},
	} {
		t.Run(name, func(t *testing.T) {
			w := dWorld(t)
			w.sim.RejectACL(func(a hns.ACL) bool { return a.Protocols == "132" })
			w.do(`policy x/p {podSelector: {matchLabels: {app: web}}, ingress: [{from: [{ipBlock: {cidr: 10.0.1.0/24}}]}]}`, "apply",
				"trace 10.0.1.1 -> 10.0.0.1 TCP/80 ep-1 in allow", "policy x/p "+tc.spec)
			_ = w.apply()
			require.True(t, w.report.Converged())
			for _, n := range []string{"1", "2", "3"} {
				w.do("trace 10.0.1.1 -> 10.0.0." + n + " TCP/80 ep-" + n + " in block")
			}
			require.NotEmpty(t, w.report.Warnings)
			for _, warning := range w.report.Warnings {
				require.Equal(t, tc.reason, warning.Reason)
				require.Equal(t, "x/p", warning.Object)
			}
			require.Equal(t, w.report.Warnings, w.dp.Dump().Warnings)
		})
	}
}

// bytesOf is what the calls since the last apply began carried.
func bytesOf(sim *hnsfault.Sim) int {
	n := 0
	for _, c := range sim.Calls() {
		n += c.Bytes
	}
	return n
}

// TestScenario_D11_NamespaceDeleted with its pods and policies, events in any
// order: the same dump, and nothing left once the endpoints are gone.
func TestScenario_D11_NamespaceDeleted(t *testing.T) {
	const p = `policy x/p {podSelector: {}, ingress: [{from: [{podSelector: {}}, {namespaceSelector: {matchLabels: {team: x}}}]}]}`
	const q = `policy x/q {podSelector: {matchLabels: {app: web}}, policyTypes: [Egress], egress: [{to: [{podSelector: {matchExpressions: [{key: app, operator: NotIn, values: [db]}]}}]}]}`
	events := []string{"delete namespace x", "delete policy x/p", "delete policy x/q",
		"delete pod x/w1", "delete pod x/w2", "delete pod x/w3", "delete pod x/api", "delete pod x/db"}
	var want string
	for seed := range uint64(40) {
		rnd := rand.New(rand.NewPCG(seed, 11))
		w := dWorld(t)
		w.do(p, q, "apply")
		order := slices.Clone(events)
		rnd.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		gone := 0
		for _, event := range order {
			w.do(event)
			if strings.HasPrefix(event, "delete pod x/w") && rnd.IntN(2) == 0 {
				w.do("no-endpoint ep-" + strings.TrimPrefix(event, "delete pod x/w"))
				gone++
			}
			if rnd.IntN(2) == 0 {
				w.do("apply")
			}
		}
		w.do("apply")
		for _, e := range w.sim.Endpoints() {
			require.NoError(t, w.sim.DeleteEndpoint(e.ID))
		}
		w.do("observe", "apply")
		require.True(t, w.report.Converged(), "seed %d", seed)
		got := w.sim.Dump() + setsText(w.dp.Dump())
		if want == "" {
			want = got
			require.NotContains(t, got, "ns-x")
		}
		require.Empty(t, cmp.Diff(want, got), "seed %d: %v", seed, order)
		require.Empty(t, w.dp.Dump().Endpoints)
	}
}

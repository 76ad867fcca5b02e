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
func dWorld(t *testing.T, policies string) *script {
	w := newWorld(t, policies)
	w.do("endpoint ep-1 10.0.0.1", "endpoint ep-2 10.0.0.2", "endpoint ep-3 10.0.0.3")
	w = dWorldOn(t, policies, w)
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
	ends := map[string]*script{} // by spec
	for name, spec := range specs {
		ends[name] = dWorld(t, policyText("p", spec))
		ends[name].do("policy p", "apply")
	}
	for _, from := range names {
		for _, to := range names {
			if from == to {
				continue
			}
			t.Run(from+" to "+to, func(t *testing.T) {
				w := dWorld(t, policyText("p", specs[from]))
				w.do("policy p", "apply")
				all := probes(w.sim, dPeers, 80, 81, 443)
				before := verdicts(t, w.sim, all)

				end := ends[to]
				after := verdicts(t, end.sim, all)
				w.archive = end.archive
				stop := watchI4(t, w.sim, before, after)
				w.do("policy p", "apply")
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

// TestScenario_D3_EndEqualsStart: added twice, edited to the same text, deleted
// and recreated identically in one batch: zero writes.
func TestScenario_D3_EndEqualsStart(t *testing.T) {
	w := dWorld(t, policyText("p", `{podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchLabels: {app: api}}}, {namespaceSelector: {matchLabels: {kind: evil}}}]}]}`))
	w.do("policy p", "policy p", "apply",
		"policy p", "apply", "calls",
		"delete policy x/p", "policy p", "apply", "calls",
		"pod x/api 10.0.1.1 app=db remote", "pod x/api 10.0.1.1 app=api remote", "apply", "calls",
		"pod x/w1 10.0.0.1 app=no", "pod x/w1 10.0.0.1 app=web", "namespace y", "namespace y kind=evil", "apply", "calls")
}

// TestScenario_D5_EndPortIsOneRange: not 64,512 numbers.
func TestScenario_D5_EndPortIsOneRange(t *testing.T) {
	w := dWorld(t, policyText("p", `{podSelector: {matchLabels: {app: web}}, ingress: [{ports: [{port: 1024, endPort: 65535}]}]}`))
	w.do("policy p", "apply", "trace 10.0.1.1 -> 10.0.0.1 TCP/1023 ep-1 in block",
		"trace 10.0.1.1 -> 10.0.0.1 TCP/1024 ep-1 in allow", "trace 10.0.1.1 -> 10.0.0.1 TCP/65535 ep-1 in allow")
	for _, a := range w.dp.Dump().Endpoints[0].Applied {
		require.Contains(t, []string{"", "1024-65535"}, a.LocalPorts)
	}
}

// TestScenario_D7_EditCannotBeExpressed: the old rules are gone, isolation
// stays, the report says why.
func TestScenario_D7_EditCannotBeExpressed(t *testing.T) {
	good := policyText("p", `{podSelector: {matchLabels: {app: web}}, ingress: [{from: [{ipBlock: {cidr: 10.0.1.0/24}}]}]}`)
	for name, tc := range map[string]struct {
		spec   string
		reason state.Reason
	}{
		"IPv6 peer":      {`{podSelector: {matchLabels: {app: web}}, ingress: [{from: [{ipBlock: {cidr: "2001:db8::/32"}}]}]}`, "IPv6Peer"},
		"refused by HNS": {`{podSelector: {matchLabels: {app: web}}, ingress: [{ports: [{protocol: SCTP, port: 80}]}]}`, state.ReasonHNSRejected},
	} {
		t.Run(name, func(t *testing.T) {
			w := dWorld(t, good)
			w.sim.RejectACL(func(a hns.ACL) bool { return a.Protocols == "132" })
			w.do("policy p", "apply", "trace 10.0.1.1 -> 10.0.0.1 TCP/80 ep-1 in allow")
			w.archive = newWorld(t, policyText("p", tc.spec)).archive
			w.do("policy p")
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

// TestScenario_D8_MalformedSelectors: a malformed peer drops that peer, a
// malformed podSelector isolates the namespace; others are unaffected.
func TestScenario_D8_MalformedSelectors(t *testing.T) {
	text := policyText("peer", `{podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchExpressions: [{key: app, operator: Around}]}}, {podSelector: {matchLabels: {app: db}}}]}]}`) +
		policyText("subject", `{podSelector: {matchExpressions: [{key: app, operator: In}]}, policyTypes: [Egress], egress: [{}]}`) +
		policyText("fine", `{podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchLabels: {app: api}}}]}]}`)
	w := dWorld(t, text)
	w.do("policy peer", "policy subject", "policy fine", "apply",
		"trace 10.0.1.2 -> 10.0.0.1 TCP/80 ep-1 in allow", "trace 10.0.1.4 -> 10.0.0.1 TCP/80 ep-1 in block",
		"trace 10.0.1.1 -> 10.0.0.1 TCP/80 ep-1 in allow", "trace 10.0.0.1 -> 10.0.1.1 TCP/80 ep-1 out block")
	require.Equal(t, []string{"x/peer", "x/subject"}, objects(w.report))
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
	text := policyText("p", `{podSelector: {}, ingress: [{from: [{podSelector: {}}, {namespaceSelector: {matchLabels: {team: x}}}]}]}`) +
		policyText("q", `{podSelector: {matchLabels: {app: web}}, policyTypes: [Egress], egress: [{to: [{podSelector: {matchExpressions: [{key: app, operator: NotIn, values: [db]}]}}]}]}`)
	events := []string{"delete namespace x", "delete policy x/p", "delete policy x/q",
		"delete pod x/w1", "delete pod x/w2", "delete pod x/w3", "delete pod x/api", "delete pod x/db"}
	var want string
	for seed := range uint64(40) {
		rnd := rand.New(rand.NewPCG(seed, 11))
		w := dWorld(t, text)
		w.do("policy p", "policy q", "apply")
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

// TestScenario_D12_ListLosesItsLastMember while an allow rule names it: it
// matches nothing, not everything.
func TestScenario_D12_ListLosesItsLastMember(t *testing.T) {
	w := dWorld(t, policyText("p", `{podSelector: {matchLabels: {app: web}}, ingress: [{from: [{namespaceSelector: {matchLabels: {kind: evil}}}, {podSelector: {matchExpressions: [{key: app, operator: In, values: [api, db]}]}}]}]}`))
	w.do("policy p", "apply", "trace 10.0.1.3 -> 10.0.0.1 TCP/80 ep-1 in allow", "trace 10.0.1.2 -> 10.0.0.1 TCP/80 ep-1 in allow",
		"namespace y", "delete pod x/api", "delete pod x/db", "apply")
	for _, src := range append(dPeers, "10.0.0.2") {
		w.do("trace " + src + " -> 10.0.0.1 TCP/80 ep-1 in block")
	}
}

package dataplane_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/hnsfault"
)

// basePolicy selects the pods with app=web.
const basePolicy = `policy x/p {podSelector: {matchLabels: {app: web}}, policyTypes: [Ingress, Egress], ingress: [{from: [{podSelector: {}}]}]}`

// calicoWorld is a node whose CNI gives nothing, with two pods, one with app=web.
func calicoWorld(t *testing.T) *world {
	w := newWorld(t)
	w.sim = hnsfault.New(hnsfault.Options{Network: "Calico"})
	w.start(onCalico)
	w.do("endpoint ep-1 10.0.0.1", "endpoint ep-2 10.0.0.2", "endpoint nobody 10.0.0.9",
		"node 10.1.0.4", "pod x/w1 10.0.0.1 app=web", "pod x/w2 10.0.0.2")
	return w
}

func onCalico(cfg *dataplane.Config) { cfg.BaseACLs = acl.CalicoBase() }

func oursOn(t *testing.T, sim *hnsfault.Sim) map[string][]hns.ACL {
	t.Helper()
	out := map[string][]hns.ACL{}
	for _, e := range sim.Endpoints() {
		ours, foreign := hns.Endpoint{Policies: e.Policies}.Split()
		require.Empty(t, foreign)
		out[e.ID] = ours
	}
	return out
}

// On the network Calico every pod's endpoint has the base rules, as without
// them the first ACL closes it; an endpoint of no pod is left alone.
func TestCalicoBase(t *testing.T) {
	w := calicoWorld(t)
	w.do("apply", "calls ACL/Add=2")
	on := oursOn(t, w.sim)
	require.Empty(t, cmp.Diff(canonicalRules(acl.CalicoBase()), on["ep-1"]))
	require.Empty(t, cmp.Diff(canonicalRules(acl.CalicoBase()), on["ep-2"]))
	require.Empty(t, on["nobody"])

	closed := probes(w.sim, []string{"10.9.9.9", "168.63.129.16"}, 80)
	before := verdicts(t, w.sim, closed)
	for p, allowed := range before {
		toNobody := p.Endpoint == "nobody"
		wireServer := p.Direction == hns.Out && p.Dst.String() == "168.63.129.16"
		require.Equal(t, !wireServer || toNobody, allowed, "%+v", p)
	}

	w.do(basePolicy, "apply", "calls ACL/Add=1 SetPolicy/Add=1")
	require.Len(t, oursOn(t, w.sim)["ep-1"], len(acl.CalicoBase())+4, "node, two blocks, one rule")
	after := verdicts(t, w.sim, closed)
	for p, allowed := range after {
		if p.Endpoint != "ep-1" {
			require.Equal(t, before[p], allowed, "%+v", p)
		} else {
			fromPod := p.Direction == hns.In && p.Src.String() == "10.0.0.2"
			require.Equal(t, fromPod, allowed, "%+v", p)
		}
	}

	dump := w.sim.Dump()
	w.start(onCalico)
	w.do("node 10.1.0.4", basePolicy, "pod x/w1 10.0.0.1 app=web", "pod x/w2 10.0.0.2", "apply", "calls")
	require.Empty(t, cmp.Diff(dump, w.sim.Dump()), "a restart writes nothing")
}

// On a new endpoint the base rules and the isolation come in one request: there
// is no moment in which the base alone opens it.
func TestCalicoBaseComesWithTheIsolation(t *testing.T) {
	w := calicoWorld(t)
	w.do(basePolicy, "apply")
	for _, c := range w.sim.Calls() {
		if c.Op == "ACL/Add" && c.Target == "ep-1" {
			require.Len(t, c.ACLs, len(acl.CalicoBase())+4)
		}
	}
	require.Len(t, oursOn(t, w.sim)["ep-1"], len(acl.CalicoBase())+4)
}

// The rules are what the predecessor has, so that replacing it costs nothing:
// priorities of the Host rules are left out, as HNS wants none there.
func TestCalicoBaseOnTheWire(t *testing.T) {
	want := []string{
		`{"Id":"azure-acl-baseazurewireserver","Protocols":"6","Action":"Block","Direction":"Out","RemoteAddresses":"168.63.129.16/32","RemotePorts":"80","RuleType":"Switch","Priority":200}`,
		`{"Id":"azure-acl-baseallowinswitch","Action":"Allow","Direction":"In","RuleType":"Switch","Priority":65499}`,
		`{"Id":"azure-acl-baseallowoutswitch","Action":"Allow","Direction":"Out","RuleType":"Switch","Priority":65499}`,
		`{"Id":"azure-acl-baseallowinhost","Action":"Allow","Direction":"In","RuleType":"Host"}`,
		`{"Id":"azure-acl-baseallowouthost","Action":"Allow","Direction":"Out","RuleType":"Host"}`,
	}
	for i, a := range acl.CalicoBase() {
		got, err := json.Marshal(a)
		require.NoError(t, err)
		require.Equal(t, want[i], string(got))
	}
}

// canonicalRules returns rules as they are compared.
func canonicalRules(acls []hns.ACL) []hns.ACL {
	out := make([]hns.ACL, len(acls))
	for i, a := range acls {
		out[i] = a.Canonical()
	}
	return out
}

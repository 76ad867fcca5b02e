package oracletest

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/winnpm/winnpm/pkg/controllers"
	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/test/effort"
	"github.com/winnpm/winnpm/test/oracle"
	"github.com/winnpm/winnpm/test/oracle/gen"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// small is a cluster with what most policies need, in few objects: sets joined by
// AND, nested sets with and without members, blocks, ports, and both families.
func small(t *testing.T) oracle.Cluster {
	t.Helper()
	c := oracle.Cluster{Node: gen.Node, NodeAddrs: []netip.Addr{netip.MustParseAddr("192.168.0.1")}}
	for _, name := range []string{"a", "b"} {
		c.Namespaces = append(c.Namespaces, corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": name}}})
	}
	for i, p := range []struct {
		namespace, app string
		ips            []string
	}{
		{"a", "web", []string{"10.0.0.1"}},
		{"a", "db", []string{"10.0.0.2", "fd00::2"}},
		{"b", "web", []string{"fd00::3", "10.0.0.3"}},
		{"b", "db", []string{"fd00::4"}}, // no address that counts
	} {
		pod := localPod(p.namespace+"-"+p.app, p.app, p.ips[0], time.Duration(i)*time.Minute)
		pod.Namespace, pod.Labels = p.namespace, map[string]string{"app": p.app}
		for _, ip := range p.ips {
			pod.Status.PodIPs = append(pod.Status.PodIPs, corev1.PodIP{IP: ip})
		}
		c.Pods = append(c.Pods, pod)
	}
	for _, name := range []string{"a", "b"} {
		np := networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "both"}}
		require.NoError(t, yaml.UnmarshalStrict([]byte(`
podSelector: {}
policyTypes: [Ingress, Egress]
ingress:
- from: [{namespaceSelector: {matchLabels: {team: a}}, podSelector: {matchLabels: {app: web}}}]
  ports: [{port: 80}]
- from: [{podSelector: {matchExpressions: [{key: app, operator: In, values: [no, none]}]}}]
- from: [{namespaceSelector: {matchExpressions: [{key: team, operator: In, values: [no, none]}]}}]
- from: [{ipBlock: {cidr: "::/0"}}, {ipBlock: {cidr: "::ffff:10.0.0.0/120"}}, {ipBlock: {cidr: 172.16.0.0/12}}]
egress:
- to: [{namespaceSelector: {}, podSelector: {matchExpressions: [{key: app, operator: In, values: [web, db]}]}}]
  ports: [{port: 80, endPort: 90}]
- to: [{ipBlock: {cidr: "fd00::/64", except: ["fd00::3/128"]}}]
`), &np.Spec))
		c.Policies = append(c.Policies, np)
	}
	return c
}

// TestSmall holds what TestOracle holds of random clusters, of one cluster.
func TestSmall(t *testing.T) {
	for _, s := range []setup{{}, {shared: true}} {
		w := newWorld(t, s)
		c := small(t)
		w.start(c, false)
		require.Len(t, w.sim.Endpoints(), 4)
		probes := []gen.Probe{
			{Protocol: corev1.ProtocolTCP, Port: 80}, {Protocol: corev1.ProtocolTCP, Port: 85},
			{Protocol: corev1.ProtocolTCP, Port: 91}, {Protocol: corev1.ProtocolUDP, Port: 80},
		}
		w.compare(c, probes)
		w.reconcile()
		w.compare(c, probes)
		w.explain(c, probes, func(x explained) {
			x.sameAsOracle(x.side.Actual)
			x.sameAsHNS()
		})
	}
}

func localPod(uid, name, addr string, age time.Duration) corev1.Pod {
	created := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(-age))
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: types.UID(uid), CreationTimestamp: created},
		Spec:       corev1.PodSpec{NodeName: gen.Node},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, PodIP: addr},
	}
}

// TestClosingNeverOpens: whichever objects of a random cluster are over their budgets, no
// connection is allowed that would not be allowed without budgets.
func TestClosingNeverOpens(t *testing.T) {
	effort.Checks(t, effort.Of(5, 100))
	fewer := 0
	rapid.Check(t, func(t *rapid.T) {
		g := gen.New(t, rapid.Bool().Draw(t, "tiers"))
		c, s := g.Cluster(), drawSetup(t)
		without, with := newWorld(t, s), newWorld(t, s)
		without.start(c, true)
		with.plug(c, true)
		with.settle(with.apply(overBudget(g, c)))

		probes := g.Probes(3)
		for _, endpoint := range with.sim.Endpoints() {
			own := ipv4Of(endpoint.Addrs)
			if !own.IsValid() {
				continue
			}
			for _, other := range gen.Ends(c) {
				for _, probe := range probes {
					in := hnssim.Packet{Src: other, Dst: own, Protocol: protocolNumbers[probe.Protocol], DstPort: probe.Port}
					out := in
					out.Src, out.Dst = in.Dst, in.Src
					for dir, packet := range map[hns.DirectionType]hnssim.Packet{hns.In: in, hns.Out: out} {
						open, err := without.sim.Trace(endpoint.ID, dir, packet)
						require.NoError(t, err)
						closed, err := with.sim.Trace(endpoint.ID, dir, packet)
						require.NoError(t, err)
						if closed.Allowed && !open.Allowed {
							with.fail(c, "%s %+v at %s passes because an object is over its budget", dir, packet, endpoint.ID)
						}
						if open.Allowed && !closed.Allowed {
							fewer++
						}
					}
				}
			}
		}
	})
	ever(t, fewer, "nothing was ever closed")
}

// overBudget returns the transaction of a cluster in which some objects are over their budgets.
func overBudget(g *gen.Gen, c oracle.Cluster) *dataplane.Transaction {
	tx := dataplane.NewTransaction()
	for _, e := range events(oracle.Cluster{}, c, true) {
		e.tell(tx)
	}
	for i := range c.Pods {
		if g.Flip("pod over its budget") {
			p := controllers.PodFrom(&c.Pods[i], gen.Node)
			p.Labels, p.Ports, p.OverBudget = nil, nil, "too many labels"
			tx.SetPod(p)
		}
	}
	for _, ns := range c.Namespaces {
		if g.Flip("namespace over its budget") {
			tx.SetNamespace(desired.Namespace{Name: ns.Name, OverBudget: "too many labels"})
		}
	}
	for i := range c.Policies {
		if g.Flip("policy over its budget") {
			np := c.Policies[i].DeepCopy()
			np.Spec = policy.Close(&np.Spec, "too much")
			tx.SetPolicy(np)
		}
	}
	return tx
}

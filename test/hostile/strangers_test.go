package hostile

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
	"sigs.k8s.io/yaml"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/test/effort"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// strangers is a node with pods of the namespaces x and y, under random NetworkPolicies and
// ClusterNetworkPolicies, and a namespace evil that may do what a tenant can.
type strangers struct {
	t     *testing.T
	draw  *rand.Rand
	sim   *hnsfault.Sim
	dp    *dataplane.Dataplane
	now   time.Time
	story []string
}

func (s *strangers) apply(tx *dataplane.Transaction) {
	s.t.Helper()
	_, err := s.dp.ApplyDataplane(s.t.Context(), tx)
	require.NoError(s.t, err)
	for range 5 { // members that wait for an endpoint
		s.now = s.now.Add(time.Minute)
		_, err = s.dp.ApplyDataplane(s.t.Context(), dataplane.NewTransaction())
		require.NoError(s.t, err)
	}
}

// one returns one of some texts.
func (s *strangers) one(texts ...string) string { return texts[s.draw.IntN(len(texts))] }

// rule returns the peers and ports of a rule of a ClusterNetworkPolicy, with the action.
func (s *strangers) rule(peers string) string {
	protocols := s.one(``, `, protocols: [{destinationNamedPort: http}]`, `, protocols: [{tcp: {destinationPort: {number: 80}}}]`,
		`, protocols: [{destinationNamedPort: http}, {tcp: {destinationPort: {number: 81}}}]`)
	return fmt.Sprintf(`{action: %s, %s: [%s]%s}`, s.one("Accept", "Deny", "Pass"), peers,
		s.one(`{namespaces: {}}`, `{namespaces: {matchLabels: {team: a}}}`, `{pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: web}}}}`), protocols)
}

func (s *strangers) cluster(tx *dataplane.Transaction, name string) {
	text := fmt.Sprintf(`{tier: %s, priority: %d, subject: {namespaces: %s}, ingress: [%s, %s], egress: [%s, %s]}`, s.one("Admin", "Baseline"), s.draw.IntN(9),
		s.one(`{}`, `{matchLabels: {team: a}}`), s.rule("from"), s.rule("from"), s.rule("to"), s.rule("to"))
	cnp := &v1alpha2.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	require.NoError(s.t, yaml.UnmarshalStrict([]byte(text), &cnp.Spec), text)
	s.story = append(s.story, "cluster "+name+" "+text)
	tx.SetClusterPolicy(cnp)
}

func (s *strangers) policy(tx *dataplane.Transaction, namespace, name string) {
	peer := func() string {
		return s.one(`{podSelector: {}}`, `{namespaceSelector: {}}`, `{namespaceSelector: {matchLabels: {team: a}}}`, `{ipBlock: {cidr: 10.0.0.0/8}}`)
	}
	ports := func() string { return s.one(`[{port: http}]`, `[{port: 80}]`, `[{port: http}, {port: 81}]`) }
	text := fmt.Sprintf(`{podSelector: %s, policyTypes: [Ingress, Egress], ingress: [{from: [%s], ports: %s}], egress: [{to: [%s], ports: %s}, {to: [%s], ports: %s}]}`,
		s.one(`{}`, `{matchLabels: {app: web}}`), peer(), ports(), peer(), ports(), peer(), ports())
	np := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	require.NoError(s.t, yaml.UnmarshalStrict([]byte(text), &np.Spec), text)
	s.story = append(s.story, "policy "+namespace+"/"+name+" "+text)
	tx.SetPolicy(np)
}

// pod sets a pod with random labels, which serves http under the number; 0 for none.
func (s *strangers) pod(tx *dataplane.Transaction, namespace, name, addr string, local bool, number uint16) {
	p := desired.Pod{
		Namespace: namespace, Name: name, UID: types.UID(namespace + "/" + name), Addr: netip.MustParseAddr(addr), Local: local,
		Labels: map[string]string{"app": s.one("web", "db")},
	}
	if number > 0 {
		p.Ports = []desired.PodPort{{Name: "http", Protocol: policy.TCP, Number: number}}
	}
	s.story = append(s.story, fmt.Sprintf("pod %s/%s %s %v http=%d", namespace, name, addr, p.Labels, number))
	tx.SetPod(p)
}

var honestAddrs = map[string]string{"x": "10.1.0.1", "y": "10.2.0.1"}

// verdicts returns what the endpoints say of the connections between the pods of x and y.
func (s *strangers) verdicts() map[string]bool {
	out := map[string]bool{}
	for _, pair := range [][2]string{{"x", "y"}, {"y", "x"}} {
		for _, port := range []uint16{80, 81, 1000, 1063, 8080, 9999} {
			for endpoint, dir := range map[string]hns.DirectionType{pair[0]: hns.Out, pair[1]: hns.In} {
				v, err := s.sim.Trace("ep-"+endpoint, dir, hnssim.Packet{
					Src: netip.MustParseAddr(honestAddrs[pair[0]]), Dst: netip.MustParseAddr(honestAddrs[pair[1]]), Protocol: 6, DstPort: port,
				})
				require.NoError(s.t, err)
				out[fmt.Sprintf("%s to %s:%d at %s", pair[0], pair[1], port, endpoint)] = v.Allowed
			}
		}
	}
	return out
}

// TestStrangersChangeNoVerdict: pods and policies of one namespace do not change the verdicts
// between pods of two other namespaces. The test uses random NetworkPolicies and
// ClusterNetworkPolicies, named ports that the first namespace serves under many numbers, and a
// small budget of ACLs per pod.
func TestStrangersChangeNoVerdict(t *testing.T) {
	for world := range effort.Of(15, 300) {
		s := &strangers{
			t: t, draw: rand.New(rand.NewPCG(1, uint64(world))), now: time.Unix(1_700_000_000, 0),
			sim: hnsfault.New(hnsfault.Options{Foreign: hnssim.DefaultForeign()}),
		}
		s.dp = dataplane.New(dataplane.Config{
			Client: s.sim, Node: "node", Now: func() time.Time { return s.now },
			Budgets: policy.Budgets{ACLs: 120 + 60*s.draw.IntN(2)*30},
		})
		tx := dataplane.NewTransaction()
		for namespace, addr := range honestAddrs {
			require.NoError(t, s.sim.CreateEndpoint(hnssim.SimEndpoint{ID: "ep-" + namespace, Addrs: []netip.Addr{netip.MustParseAddr(addr)}}))
		}
		for _, namespace := range []string{"x", "y", "evil"} {
			team := s.one("a", "b")
			s.story = append(s.story, "namespace "+namespace+" team="+team)
			tx.SetNamespace(desired.Namespace{Name: namespace, Labels: map[string]string{"team": team}})
		}
		for _, namespace := range []string{"x", "y"} {
			s.pod(tx, namespace, "p", honestAddrs[namespace], true, []uint16{0, 80, 1000, 8080}[s.draw.IntN(4)])
			if s.draw.IntN(2) == 0 {
				s.policy(tx, namespace, "p")
			}
		}
		for i := range 1 + s.draw.IntN(2) {
			s.cluster(tx, fmt.Sprintf("c%d", i))
		}
		s.apply(tx)
		before := s.verdicts()
		for range 3 {
			tx = dataplane.NewTransaction()
			for i := range []int{1, 10, 50, 64, 65, 90}[s.draw.IntN(6)] {
				s.pod(tx, "evil", fmt.Sprint(i), fmt.Sprintf("10.9.0.%d", i+1), false, uint16(1000+i))
			}
			s.policy(tx, "evil", s.one("p", "q"))
			s.apply(tx)
			require.Equal(t, before, s.verdicts(), "world %d: %v", world, s.story)
		}
	}
}

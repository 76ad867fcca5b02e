package oracletest

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/winnpm/winnpm/pkg/controllers"
	"github.com/winnpm/winnpm/test/oracle"
	"github.com/winnpm/winnpm/test/oracle/gen"
)

// small is a cluster with what most policies need, in few objects: sets joined by
// AND, nested sets with and without members, blocks, ports, and both families.
func small(t *testing.T) oracle.Cluster {
	t.Helper()
	c := oracle.Cluster{NodeAddrs: []netip.Addr{netip.MustParseAddr("192.168.0.1")}}
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
		pod := localPod(p.ips[0], p.namespace+"-"+p.app, p.ips[0], time.Duration(i)*time.Minute)
		pod.Namespace, pod.Labels, pod.UID = p.namespace, map[string]string{"app": p.app}, types.UID(p.namespace+p.app)
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
		var coverage gen.Coverage
		w := newWorld(t, s)
		c := small(t)
		w.start(c, false)
		require.Len(t, w.sim.Endpoints(), 4)
		probes := []gen.Probe{
			{Protocol: corev1.ProtocolTCP, Port: 80}, {Protocol: corev1.ProtocolTCP, Port: 85},
			{Protocol: corev1.ProtocolTCP, Port: 91}, {Protocol: corev1.ProtocolUDP, Port: 80},
		}
		w.compare(c, probes, &coverage)
		w.reconcile()
		w.compare(c, probes, &coverage)
		w.explain(c, probes, func(x explained) {
			x.sameAsOracle(x.side.Actual)
			x.sameAsHNS()
		})
	}
}

// TestOtherFamily: HNS has for a cluster what it has for the same without any
// address of IPv6: these never come into sets and rules, and an endpoint that has
// one is that of its IPv4 address, in whatever order they are.
func TestOtherFamily(t *testing.T) {
	two, alone := 0, 0
	check(t, func(t *rapid.T) {
		g := gen.New(t)
		w := newWorld(t, drawSetup(t))
		c := g.Cluster()
		w.start(c, false)
		ipv4 := newWorld(t, w.setup)
		ipv4.start(withoutIPv6(c), false)
		got := w.state()
		for _, endpoint := range w.sim.Endpoints() {
			if len(endpoint.Addrs) > 1 {
				two++
			}
			if !ipv4Of(endpoint.Addrs).IsValid() {
				alone++
				require.Empty(t, got.ACLs[endpoint.ID])
				delete(got.ACLs, endpoint.ID)
			}
		}
		if d := cmp.Diff(ipv4.state(), got); d != "" {
			w.fail(c, "IPv6 makes a difference (- without it, + with it):\n%s", d)
		}
	})
	ever(t, two, "no endpoint ever had two addresses")
	ever(t, alone, "no endpoint ever had an address of IPv6 alone")
}

// withoutIPv6 returns the cluster with pods that have IPv4 addresses only.
func withoutIPv6(c oracle.Cluster) oracle.Cluster {
	pods := make([]corev1.Pod, len(c.Pods))
	for i := range c.Pods {
		pods[i] = *c.Pods[i].DeepCopy()
		pods[i].Status.PodIPs = nil
		pods[i].Status.PodIP = ""
		if addr := oracle.Address(&c.Pods[i]); addr.IsValid() {
			pods[i].Status.PodIP = addr.String()
		}
	}
	c.Pods = pods
	return c
}

// TestPodOfTwoFamilies: an address of IPv6 is none of a pod's, in whatever place,
// and not when it has one of IPv4 in it.
func TestPodOfTwoFamilies(t *testing.T) {
	for _, test := range []struct {
		podIP  string
		podIPs []string
		want   netip.Addr
	}{
		{"10.0.0.1", []string{"10.0.0.1", "fd00::1"}, netip.MustParseAddr("10.0.0.1")},
		{"fd00::1", []string{"fd00::1", "10.0.0.1"}, netip.MustParseAddr("10.0.0.1")},
		{"::ffff:10.0.0.2", []string{"::ffff:10.0.0.2", "10.0.0.1"}, netip.MustParseAddr("10.0.0.1")},
		{"::ffff:10.0.0.2", nil, netip.Addr{}},
		{"fd00::1", []string{"fd00::1"}, netip.Addr{}},
	} {
		pod := localPod("1", "pod", test.podIP, 0)
		for _, ip := range test.podIPs {
			pod.Status.PodIPs = append(pod.Status.PodIPs, corev1.PodIP{IP: ip})
		}
		require.Equal(t, test.want, oracle.Address(&pod))
		require.Equal(t, test.want, controllers.PodFrom(&pod, gen.Node).Addr)
	}
}

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
	"sigs.k8s.io/yaml"

	"github.com/winnpm/winnpm/test/oracle"
	"github.com/winnpm/winnpm/test/oracle/gen"
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

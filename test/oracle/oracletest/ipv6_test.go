package oracletest

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/winnpm/winnpm/pkg/controllers"
	"github.com/winnpm/winnpm/test/oracle"
	"github.com/winnpm/winnpm/test/oracle/gen"
)

// TestIPv6ChangesNothing: HNS has for a cluster what it has for the same without any
// address of IPv6: these never come into sets and rules, and an endpoint that has
// one is that of its IPv4 address, in whatever order they are.
func TestIPv6ChangesNothing(t *testing.T) {
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

// TestPodWithIPv6: an address of IPv6 is none of a pod's, in whatever place,
// and not when it has one of IPv4 in it.
func TestPodWithIPv6(t *testing.T) {
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

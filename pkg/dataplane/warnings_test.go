package dataplane_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/policy"
)

// ipv6World is a node with a policy that has so many peers of IPv6, on one of its pods.
func ipv6World(t testing.TB, peers int) *world {
	t.Helper()
	from := make([]string, peers)
	for i := range from {
		from[i] = fmt.Sprintf("{ipBlock: {cidr: 'fd00::%x/128'}}", i)
	}
	w := newWorld(t)
	w.do("namespace x", "endpoint ep 10.0.0.1", "pod x/web 10.0.0.1", `policy x/p {podSelector: {}, ingress: [{from: [`+strings.Join(from, ", ")+`], ports: [{port: 80, protocol: ICMP}]}]}`, "apply")
	return w
}

// remotePodEvent applies one pod event that asks HNS for nothing.
func remotePodEvent(w *world, n int) {
	w.do(fmt.Sprintf("pod elsewhere/r 10.0.9.9 version=%d remote", n), "apply")
}

// TestOneWarningForEachReason: of ten thousand parts of a policy that are left out the
// user is told once for each reason, with the first and a count, and what others do
// costs nothing more for that.
func TestOneWarningForEachReason(t *testing.T) {
	w := ipv6World(t, 10_000)
	require.Len(t, w.report.Warnings, 2)
	require.Contains(t, w.report.Warnings[0].Message, `spec.ingress[0].from[0].ipBlock.cidr: "fd00::0/128" is of IPv6`)
	require.Contains(t, w.report.Warnings[0].Message, "(the first of 10000 in this policy)")
	require.Contains(t, w.report.Warnings[1].Message, "unknown protocol")
	require.NotContains(t, w.report.Warnings[1].Message, "the first of")
	require.Len(t, w.dp.Dump().Policies[0].Problems, policy.MaxProblems+1)
	require.Equal(t, w.report.Warnings, w.dp.Dump().Warnings)

	allocs := func(w *world) float64 {
		n := 0
		return testing.AllocsPerRun(20, func() { n++; remotePodEvent(w, n) })
	}
	few, many := allocs(ipv6World(t, 2)), allocs(w)
	t.Logf("%.0f allocations with 2 peers, %.0f with 10,000", few, many)
	require.LessOrEqual(t, many, few+10)
	w.do("delete policy x/p", "apply")
	require.Empty(t, w.report.Warnings)
}

// BenchmarkEventBesideWarnings is a pod's event while a policy has 50,000 peers that
// are left out.
func BenchmarkEventBesideWarnings(b *testing.B) {
	w := ipv6World(b, 50_000)
	n := 0
	for b.Loop() {
		n++
		w.tx.SetPod(desired.Pod{Namespace: "elsewhere", Name: "r", UID: "r", Addr: netip.MustParseAddr("10.0.9.9"), Labels: map[string]string{"v": fmt.Sprint(n)}})
		_ = w.apply()
	}
}

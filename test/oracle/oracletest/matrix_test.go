package oracletest

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/test/oracle"
	"github.com/winnpm/winnpm/test/oracle/gen"
	"github.com/winnpm/winnpm/tool/explain"
)

// TestMatrix: of a random cluster the verdict between two workloads is the
// explanation's for every pair of their pods, also when HNS is behind or not
// known; and every pod that owns an address is in one workload.
func TestMatrix(t *testing.T) {
	shared, cut := 0, 0
	check(t, func(t *rapid.T) {
		g := gen.New(t, false)
		w := newWorld(t, drawSetup(t))
		before := replicate(t, g.Cluster())
		w.start(before, true)
		after := before
		if g.Flip("trouble") {
			after = w.changeInTrouble(t, g, before)
		}
		dump := w.dp.Dump()
		m := explain.New(dump)
		workloads := explain.Workloads(m)
		seen := map[string]int{}
		for i, wl := range workloads {
			for _, pod := range wl.Pods {
				require.NotContains(w.t, seen, pod)
				seen[pod] = i
			}
			if len(wl.Pods) > 1 {
				shared++
			}
		}
		for _, p := range dump.Pods {
			if !p.LostUntil.IsZero() {
				require.NotContains(w.t, seen, p.Pod)
			} else if p.Owner && p.Addr != "" {
				require.Contains(w.t, seen, p.Pod)
			}
		}
		cut += strings.Count(fmt.Sprint(workloads), "#2")
		for _, probe := range g.Probes(2) {
			for from, a := range seen {
				for to, b := range seen {
					if from == to && len(workloads[a].Pods) > 1 {
						continue // the matrix is about another pod
					}
					answer, err := explain.Explain(dump, explain.Question{From: from, To: to, Port: probe.Port, Protocol: policy.Protocol(probe.Protocol)}, nil)
					require.NoError(w.t, err)
					source, destination := workloads[a].Pods[0], workloads[b].Pods[0]
					if a == b && len(workloads[a].Pods) > 1 {
						destination = workloads[a].Pods[1]
					}
					pair, err := m.Pair(source, destination)
					require.NoError(w.t, err)
					egress, ingress := pair.Halves(probe.Port, policy.Protocol(probe.Protocol))
					actual, wanted := egress.With(ingress)
					if actual != actualOf(answer) || wanted != wantedOf(answer) {
						w.fail(after, "%s -> %s %v: %s and %s of the matrix, %s and %s explained", from, to, probe, actual, wanted, actualOf(answer), wantedOf(answer))
					}
				}
			}
		}
	})
	ever(t, shared, "no workload ever had two pods")
	ever(t, cut, "no workload was ever cut in two")
}

// replicate gives some pods of a cluster replicas: the same labels but for one
// that a controller put there, and any address of their own.
func replicate(t *rapid.T, c oracle.Cluster) oracle.Cluster {
	used := map[netip.Addr]bool{}
	for i := range c.Pods {
		used[oracle.Address(&c.Pods[i])] = true
	}
	var free []netip.Addr
	for addr := netip.MustParseAddr("10.0.0.1"); addr.Less(netip.MustParseAddr("10.0.0.29")); addr = addr.Next() {
		if !used[addr] {
			free = append(free, addr)
		}
	}
	for _, pod := range slices.Clone(c.Pods) {
		if !oracle.Member(&pod) {
			continue
		}
		for range rapid.IntRange(0, 2).Draw(t, "replicas") {
			i := rapid.IntRange(0, len(free)-1).Draw(t, "address of a replica")
			replica := pod.DeepCopy()
			replica.Name = fmt.Sprintf("%s-%d", pod.Name, len(free))
			replica.UID += types.UID(replica.Name)
			if replica.Labels == nil {
				replica.Labels = map[string]string{}
			}
			replica.Labels["pod-template-hash"] = replica.Name
			replica.Status.PodIP, replica.Status.PodIPs = free[i].String(), nil
			free = slices.Delete(free, i, i+1)
			c.Pods = append(c.Pods, *replica)
		}
	}
	return c
}

// actualOf is the verdict over what is in HNS, as far as this node has a say in it.
func actualOf(a explain.Answer) explain.Verdict {
	switch {
	case a.Egress.Judged && a.Ingress.Judged:
		return a.Verdict
	case a.Egress.Judged:
		return a.Egress.Actual.Verdict
	case a.Ingress.Judged:
		return a.Ingress.Actual.Verdict
	}
	return explain.Unknown
}

// wantedOf is the same over what should be in HNS.
func wantedOf(a explain.Answer) explain.Verdict {
	out := explain.Unknown
	for _, s := range []explain.Side{a.Egress, a.Ingress} {
		if s.Judged && s.Wanted.Verdict == explain.Blocked {
			return explain.Blocked
		}
		if s.Judged && out == explain.Unknown {
			out = explain.Allowed
		}
	}
	for _, s := range []explain.Side{a.Egress, a.Ingress} {
		if s.Judged && s.Wanted.Verdict == explain.Unknown {
			return explain.Unknown
		}
	}
	return out
}

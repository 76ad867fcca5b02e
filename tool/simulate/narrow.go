package simulate

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/tool/manifest"
)

// narrow has only some pods run on the simulated node. All others are as pods of other
// nodes: in sets, without an endpoint. Of ten thousand pods a trace asks two.
type narrow map[desired.PodKey]bool // nil: all run there

// endsOnly returns the pods that decide about connections between some ends. Those that
// share an address stay, as which one owns it depends on where they run.
func endsOnly(o manifest.Objects, ends []string) narrow {
	if ends == nil {
		return nil
	}
	claims := map[string]int{}
	for _, n := range o.Nodes {
		for _, a := range n.Status.Addresses {
			claims[a.Address]++
		}
	}
	for _, p := range o.Pods {
		claims[p.Status.PodIP]++
	}
	asked := narrow{}
	for _, p := range o.Pods {
		key := desired.PodKey{Namespace: p.Namespace, Name: p.Name}
		asks := func(addr string) bool { return claims[addr] > 1 || slices.Contains(ends, addr) }
		if slices.Contains(ends, key.String()) || slices.ContainsFunc(addressesOf(p), asks) {
			asked[key] = true
		}
	}
	return asked
}

// addressesOf returns every address that a pod says it has.
func addressesOf(p *corev1.Pod) []string {
	out := []string{p.Status.PodIP}
	for _, ip := range p.Status.PodIPs {
		out = append(out, ip.IP)
	}
	return slices.DeleteFunc(out, func(a string) bool { return a == "" })
}

// leave has pods of a transaction run elsewhere that nobody asked about.
func (n narrow) leave(tx *dataplane.Transaction) {
	if n == nil {
		return
	}
	for key, pod := range tx.Pods() {
		if pod != nil && pod.Local && !n[key] {
			other := *pod
			other.Local = false
			tx.SharePod(&other)
		}
	}
}

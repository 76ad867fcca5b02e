package simulate

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/winnpm/winnpm/pkg/controllers"
	"github.com/winnpm/winnpm/tool/explain"
)

// Answer runs the program on manifests as Snapshot does, and answers a question. A question
// about a node's address is answered on the node of the pod at the other end: only there is it
// known whether it is the pod's own node, which may always come in. Answer uses only the
// options that say what to simulate.
func Answer(ctx context.Context, o Options, q explain.Question) (explain.Answer, error) {
	in, err := open(o, true)
	if err != nil {
		return explain.Answer{}, err
	}
	if o.Node == "" {
		if o.Node, err = in.judgedOn(q); err != nil {
			return explain.Answer{}, err
		}
		if o.Node != "" {
			in.source = memorySource(in.objects, o.Node)
		}
	}
	m, err := converge(ctx, o, in)
	if err != nil {
		return explain.Answer{}, err
	}
	return explain.Explain(m.dump, q, m.places)
}

// judgedOn returns the node on which a question has to be answered, "" for any.
func (in *input) judgedOn(q explain.Question) (string, error) {
	if len(in.objects.Nodes) < 2 {
		return "", nil
	}
	from, to := in.place(q.From), in.place(q.To)
	end, name, address := to.pod, q.To, q.From
	switch {
	case from.isNode == to.isNode: // nothing is filtered on nodes
		return "", nil
	case to.isNode:
		end, name, address = from.pod, q.From, q.To
	}
	switch {
	case end == nil:
		return "", nil
	case end.Spec.NodeName == "" && address != explain.Node:
		return "", fmt.Errorf("%s is on no node yet, and %s is the address of one: say with --node where it is to run", name, address)
	}
	return end.Spec.NodeName, nil
}

// where is what an end of a question is in the cluster.
type where struct {
	isNode bool        // also a pod in the network of its node
	pod    *corev1.Pod // nil: none
}

// place finds an end of a question.
func (in *input) place(name string) where {
	if name == explain.Node {
		return where{isNode: true}
	}
	addr, err := netip.ParseAddr(name)
	i := slices.IndexFunc(in.objects.Pods, func(p *corev1.Pod) bool {
		return err == nil && p.Status.PodIP == name && !controllers.OnHostNetwork(p) || p.Namespace+"/"+p.Name == name
	})
	if i >= 0 {
		p := in.objects.Pods[i]
		return where{isNode: controllers.OnHostNetwork(p), pod: p}
	}
	return where{isNode: slices.ContainsFunc(in.objects.Nodes, func(n *corev1.Node) bool {
		return slices.Contains(controllers.NodeAddrs(n), addr)
	})}
}

// ownNodes returns the addresses of each pod's node, where both are in the manifests. Each
// node has one list.
func (in *input) ownNodes() map[string][]netip.Addr {
	nodes, own := map[string][]netip.Addr{}, map[string][]netip.Addr{}
	for _, n := range in.objects.Nodes {
		nodes[n.Name] = controllers.NodeAddrs(n)
	}
	for _, p := range in.objects.Pods {
		if addrs := nodes[p.Spec.NodeName]; len(addrs) > 0 {
			own[p.Namespace+"/"+p.Name] = addrs
		}
	}
	return own
}

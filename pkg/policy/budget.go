package policy

import (
	"cmp"
	"fmt"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Budgets bound what the objects of others may cost. A Kubernetes object of 1.5 MB
// is legal, and whoever may write one may write a hundred. What is over its budget
// closes: it allows nothing, and belongs to nothing that a rule allows. A field that
// is 0 stands for its default. docs/security.md describes them for users.
type Budgets struct {
	// Labels and LabelBytes bound the labels of one pod or Namespace, keys and values
	// together. Workloads have some twenty labels, with generators some fifty; a label
	// is 380 bytes at most.
	Labels     int
	LabelBytes int
	// Ports bound the named ports of one pod. A media server that names a range of
	// ports one by one has some hundreds.
	Ports int
	// NamespacePodBytes bounds the total size of the labels and named ports of all pods of a
	// namespace (RoomForPods). Kubernetes is tested with 3,000 pods in a namespace. For a pod
	// with twenty labels of 40 bytes the size is 1,440 bytes.
	NamespacePodBytes int
	// Items and Bytes bound one policy's text (Size). What kubectl apply writes is
	// below: it puts the object as JSON, which is longer, into an annotation, and
	// these have 256 KiB together. The address ranges of a large cloud are some
	// thousand items.
	Items int
	Bytes int
	// NamespaceItems and NamespaceBytes bound the policies of one namespace together:
	// a thousand policies of twenty items each. A policy that is over its own budget
	// does not count, as nothing of it is kept.
	NamespaceItems int
	NamespaceBytes int
	// ACLs and ACLBytes bound what the policies of one pod come to in HNS. A peer is an
	// ACL for each protocol, with all its ports; a hundred address ranges are one. What is
	// written of a pod is one request in the end, and HNS goes through all of it for
	// every connection: pods have tens, seldom hundreds.
	ACLs     int
	ACLBytes int
	// NamespaceMembers bounds what the selectors of one namespace's policies match, where
	// they are more than labels: each such selector counts as 256 members, and each pod
	// and namespace that it matches as one. A member costs up to 100 bytes. Twenty policies
	// that say NotIn of all pods of a large cluster are within.
	NamespaceMembers int
}

// DefaultBudgets are those that count where nobody says anything else.
func DefaultBudgets() Budgets {
	return Budgets{
		Labels: 256, LabelBytes: 16 << 10, Ports: 1024, NamespacePodBytes: 8 << 20,
		Items: 10_000, Bytes: 256 << 10,
		NamespaceItems: 20_000, NamespaceBytes: 2 << 20,
		ACLs: 2000, ACLBytes: 640 << 10,
		NamespaceMembers: 200_000,
	}
}

// OrDefaults returns the budgets with a default for each that is 0.
func (b Budgets) OrDefaults() Budgets {
	d := DefaultBudgets()
	return Budgets{
		Labels: cmp.Or(b.Labels, d.Labels), LabelBytes: cmp.Or(b.LabelBytes, d.LabelBytes), Ports: cmp.Or(b.Ports, d.Ports),
		NamespacePodBytes: cmp.Or(b.NamespacePodBytes, d.NamespacePodBytes),
		Items:             cmp.Or(b.Items, d.Items), Bytes: cmp.Or(b.Bytes, d.Bytes),
		NamespaceItems: cmp.Or(b.NamespaceItems, d.NamespaceItems), NamespaceBytes: cmp.Or(b.NamespaceBytes, d.NamespaceBytes),
		ACLs: cmp.Or(b.ACLs, d.ACLs), ACLBytes: cmp.Or(b.ACLBytes, d.ACLBytes),
		NamespaceMembers: cmp.Or(b.NamespaceMembers, d.NamespaceMembers),
	}
}

// ExcessOfLabels says in what labels are over their budget, "" for nothing.
func (b Budgets) ExcessOfLabels(labels map[string]string) string {
	if n := len(labels); n > b.Labels {
		return fmt.Sprintf("%d labels, of which %d are read at most (MaxLabelsPerObject)", n, b.Labels)
	}
	size := 0
	for k, v := range labels {
		size += len(k) + len(v)
	}
	if size > b.LabelBytes {
		return fmt.Sprintf("%d bytes of labels, of which %d are read at most (MaxLabelBytesPerObject)", size, b.LabelBytes)
	}
	return ""
}

// ExcessOfPorts says in what the named ports of a pod are over their budget, "" for
// nothing.
func (b Budgets) ExcessOfPorts(n int) string {
	if n <= b.Ports {
		return ""
	}
	return fmt.Sprintf("%d named ports, of which %d are read at most (MaxNamedPortsPerPod)", n, b.Ports)
}

// Size is what a policy's text costs.
type Size struct {
	Items int // rules, peers, ports, excepts, and the labels, terms and values of selectors
	Bytes int // of the spec, as protobuf
}

// Add returns the size of both.
func (s Size) Add(o Size) Size { return Size{s.Items + o.Items, s.Bytes + o.Bytes} }

// Sub is the inverse of Add.
func (s Size) Sub(o Size) Size { return Size{s.Items - o.Items, s.Bytes - o.Bytes} }

// SizeOf measures a spec.
func SizeOf(spec *networkingv1.NetworkPolicySpec) Size {
	s := Size{Bytes: spec.Size(), Items: selectorItems(&spec.PodSelector) + len(spec.PolicyTypes)}
	for i := range spec.Ingress {
		s.Items += 1 + len(spec.Ingress[i].Ports) + peerItems(spec.Ingress[i].From)
	}
	for i := range spec.Egress {
		s.Items += 1 + len(spec.Egress[i].Ports) + peerItems(spec.Egress[i].To)
	}
	return s
}

func peerItems(peers []networkingv1.NetworkPolicyPeer) int {
	n := len(peers)
	for i := range peers {
		n += selectorItems(peers[i].PodSelector) + selectorItems(peers[i].NamespaceSelector)
		if peers[i].IPBlock != nil {
			n += len(peers[i].IPBlock.Except)
		}
	}
	return n
}

func selectorItems(sel *metav1.LabelSelector) int {
	if sel == nil {
		return 0
	}
	n := len(sel.MatchLabels) + len(sel.MatchExpressions)
	for i := range sel.MatchExpressions {
		n += len(sel.MatchExpressions[i].Values)
	}
	return n
}

// Excess says in what a policy is over the budget of one policy, "" for nothing.
func (b Budgets) Excess(s Size) string {
	switch {
	case s.Bytes > b.Bytes:
		return fmt.Sprintf("its spec has %d bytes, of which %d are read at most (MaxBytesPerNetPol)", s.Bytes, b.Bytes)
	case s.Items > b.Items:
		return fmt.Sprintf("it has %d rules, peers, ports and terms, of which %d are read at most (MaxItemsPerNetPol)", s.Items, b.Items)
	}
	return ""
}

// SubjectItems and SubjectBytes are the budget of the podSelector of a policy that is
// closed: it is kept. A larger one selects every pod of its namespace.
const (
	SubjectItems = 64
	SubjectBytes = 4 << 10
)

// overBudget begins the policy type that marks a closed spec. The API server takes no
// such type, and Compile gives it no other meaning, so that a forged one isolates and
// says so.
const overBudget = "OverBudget: "

// Close returns what is kept of a policy that is over a budget, which excess says: it
// isolates whom it isolated, or more, and allows nothing. The mark is a part of the
// spec, so that whoever has the spec knows: dumps, recordings, plans.
func Close(spec *networkingv1.NetworkPolicySpec, excess string) networkingv1.NetworkPolicySpec {
	var out networkingv1.NetworkPolicySpec
	if selectorItems(&spec.PodSelector) <= SubjectItems && spec.PodSelector.Size() <= SubjectBytes {
		spec.PodSelector.DeepCopyInto(&out.PodSelector) // nothing of what is dropped stays
	}
	for i, is := range directions(spec) {
		if is {
			out.PolicyTypes = append(out.PolicyTypes, policyTypes[i])
		}
	}
	out.PolicyTypes = append(out.PolicyTypes, networkingv1.PolicyType(overBudget+excess))
	return out
}

// policyTypes are the API's words for directions.
var policyTypes = [...]networkingv1.PolicyType{Ingress: networkingv1.PolicyTypeIngress, Egress: networkingv1.PolicyTypeEgress}

// directions tells which directions a policy is about. Without a type that is known
// the API's default holds: ingress, and egress if there are egress rules.
func directions(spec *networkingv1.NetworkPolicySpec) [2]bool {
	var out [2]bool
	for _, t := range spec.PolicyTypes {
		for i := range policyTypes {
			out[i] = out[i] || t == policyTypes[i]
		}
	}
	if out == [2]bool{} {
		out[Ingress], out[Egress] = true, len(spec.Egress) > 0
	}
	return out
}

// Excess says why a spec was closed, "" when it was not.
func Excess(spec *networkingv1.NetworkPolicySpec) string {
	if n := len(spec.PolicyTypes); n > 0 {
		if excess, marked := strings.CutPrefix(string(spec.PolicyTypes[n-1]), overBudget); marked {
			return excess
		}
	}
	return ""
}

package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

// Budgets limit what the objects of tenants may cost. A Kubernetes object of 1.5 MB is legal, and a
// tenant may write a hundred of them. An object over a limit is closed: a closed policy allows
// nothing, and a closed pod or Namespace is in no set that is used to allow. Only objects of the
// same namespace can close an object. A field that is 0 stands for its default. docs/security.md
// describes the limits for users.
type Budgets struct {
	// ObjectBytes limits one NetworkPolicy (Size.Bytes). A large cloud has a few thousand address
	// ranges, of about 100 bytes each.
	ObjectBytes int
	// NamespaceBytes limits all NetworkPolicies of a namespace together (Size.Total), and the
	// labels and named ports of all its pods together. Kubernetes is tested with 3,000 pods in a
	// namespace. A pod with twenty labels of 40 bytes has 1,440 bytes.
	NamespaceBytes int
	// ACLs limits the ACLs that the policies of one pod need in HNS; a long ACL counts as several.
	// HNS checks all of them for every connection. Pods usually have tens, rarely hundreds.
	ACLs int
}

// DefaultBudgets returns the limits that apply if the configuration has none.
func DefaultBudgets() Budgets {
	return Budgets{ObjectBytes: 512 << 10, NamespaceBytes: 8 << 20, ACLs: 2000}
}

// OrDefaults returns the budgets with the default for each field that is 0.
func (b Budgets) OrDefaults() Budgets {
	d := DefaultBudgets()
	return Budgets{
		ObjectBytes: cmp.Or(b.ObjectBytes, d.ObjectBytes), NamespaceBytes: cmp.Or(b.NamespaceBytes, d.NamespaceBytes), ACLs: cmp.Or(b.ACLs, d.ACLs),
	}
}

// LabelBytes limits the labels and named ports of one pod, Namespace or Node (SizeOfPod). Workloads
// have some twenty labels; a media server has some hundred named ports.
const LabelBytes = 32 << 10

// SizeOfPod returns the estimated memory that labels and port names take, in bytes.
func SizeOfPod(labels map[string]string, ports ...string) int {
	n := 32 * (len(labels) + len(ports))
	for k, v := range labels {
		n += len(k) + len(v)
	}
	for _, name := range ports {
		n += len(name)
	}
	return n
}

// ExcessOfLabels returns the reason for closing an object whose labels and named ports have this
// size, or "" if they are within LabelBytes.
func ExcessOfLabels(size int) string {
	if size <= LabelBytes {
		return ""
	}
	return fmt.Sprintf("%d bytes of labels and named ports, of which %d are read at most", size, LabelBytes)
}

// ExcessOfNamespacePods is the reason for closing a pod whose namespace is over its limit.
func (b Budgets) ExcessOfNamespacePods() string {
	return fmt.Sprintf("labels and ports that, with those of the other pods of its namespace, have more than %d bytes (MaxBytesPerNamespace)", b.NamespaceBytes)
}

// ExcessOfNamespace is the reason for closing a policy whose namespace is over its limit.
func (b Budgets) ExcessOfNamespace() string {
	return fmt.Sprintf("the policies of its namespace have more than %d bytes together (MaxBytesPerNamespace)", b.NamespaceBytes)
}

// Excess returns the reason for closing a policy that is over the limit of one object, or "" if it
// is not.
func (b Budgets) Excess(s Size) string {
	if s.Bytes <= b.ObjectBytes {
		return ""
	}
	return fmt.Sprintf("it takes %d bytes, of which %d are read at most (MaxBytesPerNetPol)", s.Bytes, b.ObjectBytes)
}

// Fit returns the policies of a cluster, with closed copies in place of those over a limit.
// If the policies of a namespace are over their limit together, all of them close. Fit does
// not modify the objects in list.
func (b Budgets) Fit(list []*networkingv1.NetworkPolicy) (out []*networkingv1.NetworkPolicy) {
	closed := func(np *networkingv1.NetworkPolicy, excess string) *networkingv1.NetworkPolicy {
		is := *np
		is.Spec = Close(&np.Spec, excess)
		return &is
	}
	sums := map[string]int{}
	for _, np := range list {
		size := SizeOf(&np.Spec)
		if excess := b.Excess(size); excess != "" {
			np = closed(np, excess)
		} else if Excess(&np.Spec) == "" {
			sums[np.Namespace] += size.Total()
		}
		out = append(out, np)
	}
	for i, np := range out {
		if sums[np.Namespace] > b.NamespaceBytes && Excess(&np.Spec) == "" {
			out[i] = closed(np, b.ExcessOfNamespace())
		}
	}
	return out
}

// SubjectBytes bounds the podSelector of a closed policy, which is kept. A larger one selects
// every pod of its namespace.
const SubjectBytes = 8 << 10

// overBudget is the prefix of the policy type that marks a closed spec. The API server rejects such
// a type. If a policy has it anyway, Compile treats it as closed: it isolates, and has a problem
// that says so.
const overBudget = "OverBudget: "

// Close returns the closed copy of a policy that is over a budget. The copy isolates at least the
// pods that the policy isolates, and allows nothing. excess is the reason. It is stored in the spec
// as a mark, so that every reader of the spec sees it: dumps, recordings, plans.
func Close(spec *networkingv1.NetworkPolicySpec, excess string) networkingv1.NetworkPolicySpec {
	var out networkingv1.NetworkPolicySpec
	if selectorSize(&spec.PodSelector) <= SubjectBytes {
		spec.PodSelector.DeepCopyInto(&out.PodSelector) // a copy, so that the dropped text can be freed
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

// directions returns which directions a policy isolates. Without a known policy type the API's
// default applies: ingress, and also egress if there are egress rules.
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

// Excess returns the reason why a spec was closed, or "" if it was not.
func Excess(spec *networkingv1.NetworkPolicySpec) string {
	if n := len(spec.PolicyTypes); n > 0 {
		if excess, marked := strings.CutPrefix(string(spec.PolicyTypes[n-1]), overBudget); marked {
			return excess
		}
	}
	return ""
}

// ClusterBytes limits the JSON of the spec of one ClusterNetworkPolicy; a larger spec is not
// decoded. The CRD limits rules, peers and networks: fifty rules of 25 peers of 25 networks at
// most, which is less. It does not limit selectors, and another version of the CRD may limit
// nothing. This limit is not configurable, because tenants may not write such policies.
const ClusterBytes = 1 << 20

// CloseCluster returns the closed copy of a spec that was not decoded in full. It accepts nothing.
// The rules of a direction become one rule: a Deny if one of them has another action than Accept.
// Without a subject the copy selects every pod. excess is the reason, which the name of the rule
// carries as a mark, so that every reader of the spec sees it.
func CloseCluster(spec *v1alpha2.ClusterNetworkPolicySpec, excess string) v1alpha2.ClusterNetworkPolicySpec {
	out := v1alpha2.ClusterNetworkPolicySpec{Tier: spec.Tier, Priority: spec.Priority, Subject: spec.Subject}
	if out.Subject == (v1alpha2.ClusterNetworkPolicySubject{}) {
		out.Subject.Namespaces = &metav1.LabelSelector{}
	}
	in, eg := v1alpha2.ClusterNetworkPolicyIngressRule{Name: overBudget + excess}, v1alpha2.ClusterNetworkPolicyEgressRule{Name: overBudget + excess}
	in.Action, eg.Action = v1alpha2.ClusterNetworkPolicyRuleActionAccept, v1alpha2.ClusterNetworkPolicyRuleActionAccept
	if slices.ContainsFunc(spec.Ingress, func(r v1alpha2.ClusterNetworkPolicyIngressRule) bool { return r.Action != in.Action }) {
		in.Action = v1alpha2.ClusterNetworkPolicyRuleActionDeny
	}
	if slices.ContainsFunc(spec.Egress, func(r v1alpha2.ClusterNetworkPolicyEgressRule) bool { return r.Action != eg.Action }) {
		eg.Action = v1alpha2.ClusterNetworkPolicyRuleActionDeny
	}
	if len(spec.Ingress) > 0 || len(spec.Egress) == 0 { // at least one rule must carry the mark
		out.Ingress = []v1alpha2.ClusterNetworkPolicyIngressRule{in}
	}
	if len(spec.Egress) > 0 {
		out.Egress = []v1alpha2.ClusterNetworkPolicyEgressRule{eg}
	}
	return out
}

// closedCluster returns the reason why CloseCluster closed a spec, or "" if it did not. The API
// server rejects names of rules that are as long as a mark. A rule that has one anyway closes its
// policy.
func closedCluster(spec *v1alpha2.ClusterNetworkPolicySpec) string {
	var names []string
	for _, r := range spec.Ingress {
		names = append(names, r.Name)
	}
	for _, r := range spec.Egress {
		names = append(names, r.Name)
	}
	for _, name := range names {
		if excess, marked := strings.CutPrefix(name, overBudget); marked {
			return excess
		}
	}
	return ""
}

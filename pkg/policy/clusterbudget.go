package policy

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

// ClusterBytes bounds one ClusterNetworkPolicy (sizeOfCluster). The CRD bounds its rules, peers
// and networks, with fifty rules of 25 peers of 25 networks at most, which is within;
// selectors it does not bound, and another CRD may bound nothing. It is no key of the
// configuration, because no tenant may write such a policy.
const ClusterBytes = 4 << 20

// clusterExcess says that a cluster policy of this size is too large, "" if it is not.
func clusterExcess(size int) string {
	if size <= ClusterBytes {
		return ""
	}
	return fmt.Sprintf("it takes %d bytes, of which %d are read at most", size, ClusterBytes)
}

// CloseCluster returns what is kept of a spec that was not decoded whole; excess says
// why. Of its rules only the actions count: those of a direction become one rule, whose
// name is a mark. Without a subject it selects every pod. It accepts nothing. The mark is
// a part of the spec, so that every reader of the spec sees it.
func CloseCluster(spec *v1alpha2.ClusterNetworkPolicySpec, excess string) v1alpha2.ClusterNetworkPolicySpec {
	out := v1alpha2.ClusterNetworkPolicySpec{Tier: spec.Tier, Priority: spec.Priority, Subject: spec.Subject}
	mark := overBudget + excess
	worst := v1alpha2.ClusterNetworkPolicyRuleActionAccept
	for i := range spec.Ingress {
		worst = stricter(worst, spec.Ingress[i].Action)
	}
	if len(spec.Ingress) > 0 || len(spec.Egress) == 0 { // one of them has the mark
		out.Ingress = []v1alpha2.ClusterNetworkPolicyIngressRule{{Name: mark, Action: worst}}
	}
	worst = v1alpha2.ClusterNetworkPolicyRuleActionAccept
	for i := range spec.Egress {
		worst = stricter(worst, spec.Egress[i].Action)
	}
	if len(spec.Egress) > 0 {
		out.Egress = []v1alpha2.ClusterNetworkPolicyEgressRule{{Name: mark, Action: worst}}
	}
	return out
}

// stricter returns Accept where both are, else Deny.
func stricter(a, b v1alpha2.ClusterNetworkPolicyRuleAction) v1alpha2.ClusterNetworkPolicyRuleAction {
	if Action(a) == Accept && Action(b) == Accept {
		return a
	}
	return v1alpha2.ClusterNetworkPolicyRuleActionDeny
}

// closedCluster returns why CloseCluster closed a spec, "" when it did not. The API server
// takes no name of a rule that is as long as a mark, and a forged one closes.
func closedCluster(spec *v1alpha2.ClusterNetworkPolicySpec) string {
	name := ""
	switch {
	case len(spec.Ingress) > 0:
		name = spec.Ingress[0].Name
	case len(spec.Egress) > 0:
		name = spec.Egress[0].Name
	}
	excess, marked := strings.CutPrefix(name, overBudget)
	if !marked {
		return ""
	}
	return excess
}

// unmarked returns the name of a rule, "" for a mark.
func unmarked(name string) string {
	if strings.HasPrefix(name, overBudget) {
		return ""
	}
	return name
}

// tooLarge emits what is left of a policy that is too large: for each direction in which
// it does more than accept, one rule that denies everything. It returns the subject.
func (c *clusterCompiler) tooLarge(spec *v1alpha2.ClusterNetworkPolicySpec, at *field.Path, excess string) (namespaces, pods LabelMatcher) {
	c.problem(ReasonOverBudget, at, "%s; the policy accepts nothing, and denies everything in a direction in which it denies or passes. Make several policies of it", excess)
	for i := range spec.Ingress {
		if Action(spec.Ingress[i].Action) != Accept {
			c.rules = append(c.rules, ClusterRule{Direction: Ingress, Index: i, Name: unmarked(spec.Ingress[i].Name), Action: Deny, Peers: []Peer{{}}})
			break
		}
	}
	for i := range spec.Egress {
		if Action(spec.Egress[i].Action) != Accept {
			c.rules = append(c.rules, ClusterRule{Direction: Egress, Index: i, Name: unmarked(spec.Egress[i].Name), Action: Deny, Peers: []Peer{{}}})
			break
		}
	}
	if spec.Subject == (v1alpha2.ClusterNetworkPolicySubject{}) && closedCluster(spec) != "" {
		return everyLabels, everyLabels
	}
	if sizeOfSelected(spec.Subject.Namespaces, spec.Subject.Pods) > SubjectBytes {
		return everyLabels, everyLabels
	}
	return c.subject(&spec.Subject, at.Child("subject"))
}

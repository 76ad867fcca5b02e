package policy

import (
	"fmt"
	"slices"
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
	var worst [2]v1alpha2.ClusterNetworkPolicyRuleAction
	for dir := range worst {
		if worst[dir] = v1alpha2.ClusterNetworkPolicyRuleActionAccept; firstCloser(spec, Direction(dir)) != nil {
			worst[dir] = v1alpha2.ClusterNetworkPolicyRuleActionDeny
		}
	}
	if len(spec.Ingress) > 0 || len(spec.Egress) == 0 { // one of them has the mark
		out.Ingress = []v1alpha2.ClusterNetworkPolicyIngressRule{{Name: mark, Action: worst[Ingress]}}
	}
	if len(spec.Egress) > 0 {
		out.Egress = []v1alpha2.ClusterNetworkPolicyEgressRule{{Name: mark, Action: worst[Egress]}}
	}
	return out
}

// firstCloser returns the rule that denies everything in place of the first rule of a
// direction that does more than accept, nil for none.
func firstCloser(spec *v1alpha2.ClusterNetworkPolicySpec, dir Direction) *Rule {
	var rules []Rule
	if dir == Ingress {
		for _, r := range spec.Ingress {
			rules = append(rules, Rule{Name: r.Name, Action: Action(r.Action)})
		}
	} else {
		for _, r := range spec.Egress {
			rules = append(rules, Rule{Name: r.Name, Action: Action(r.Action)})
		}
	}
	at := slices.IndexFunc(rules, func(r Rule) bool { return r.Action != Accept })
	if at < 0 {
		return nil
	}
	name := rules[at].Name
	if strings.HasPrefix(name, overBudget) {
		name = ""
	}
	return &Rule{Direction: dir, Index: at, Name: name, Action: Deny}
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

// tooLarge emits what is left of a policy that is too large: its subject, and for each
// direction in which it does more than accept, one rule that denies everything.
func (c *compiler) tooLarge(spec *v1alpha2.ClusterNetworkPolicySpec, at *field.Path, excess string) {
	c.problem(ReasonOverBudget, at, "%s; the policy accepts nothing, and denies everything in a direction in which it denies or passes. Make several policies of it", excess)
	for _, dir := range Directions {
		if r := firstCloser(spec, dir); r != nil {
			c.emit(*r, []candidate{{}})
		}
	}
	dropped := spec.Subject == (v1alpha2.ClusterNetworkPolicySubject{}) && closedCluster(spec) != ""
	if dropped || sizeOfSelected(spec.Subject.Namespaces, spec.Subject.Pods) > SubjectBytes {
		c.out.Namespaces, c.out.Subject = everyLabels, everyLabels
		return
	}
	c.subject(&spec.Subject, at.Child("subject"))
}

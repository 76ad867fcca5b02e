package policy

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

// CompileCluster returns the meaning of cnp, which it does not change. It never fails. cnp may
// violate the CRD that this version knows, because a cluster may have another version. Parts that
// cannot be expressed close, and are listed in the result's Problems:
//
//   - An IPv6 network is left out of its rule, and so is a domain name of a rule that accepts.
//     A Deny with any network also blocks all IPv6 (see networks).
//   - A rule with any other unknown part matches nothing if it accepts, and otherwise denies
//     everything of its direction.
//   - A rule with an unknown action denies.
//   - A policy with an unknown subject, tier or priority accepts nothing, and denies what it
//     would pass. Without a subject it selects every pod. Without a tier it is in the Admin
//     tier, and without a priority it is the first of its tier.
//   - A policy from CloseCluster accepts nothing, and denies everything of a direction in which
//     it does more than accept.
func CompileCluster(cnp *v1alpha2.ClusterNetworkPolicy) Policy {
	spec := field.NewPath("spec")
	c := compiler{malformed: ReasonUnsupportedPeer, out: Policy{Key: ClusterKey(cnp.Name)}}
	c.place(&cnp.Spec, spec)
	c.subject(&cnp.Spec.Subject, spec.Child("subject"))
	if excess := closedCluster(&cnp.Spec); excess != "" {
		c.problem(ReasonOverBudget, spec, "%s; the policy accepts nothing, and denies everything in a direction in which it denies or passes. Make several policies of it", excess)
	}
	c.clusterRules(&cnp.Spec, spec)
	return c.policy()
}

// everyLabels matches all labels.
var everyLabels LabelMatcher = matcher{labels.Everything()}

// PriorityUnknown is the priority of a policy with an invalid tier or priority: before all others
// of its tier, so that no other policy accepts what it denies.
const PriorityUnknown = -1

// maxPriority is the highest priority value of the API.
const maxPriority = 1000

// place sets the tier and the priority of the policy.
func (c *compiler) place(spec *v1alpha2.ClusterNetworkPolicySpec, at *field.Path) {
	const consequence = "the policy comes first, accepts nothing and denies what it would pass"
	c.out.Tier, c.out.Priority = Admin, spec.Priority
	switch spec.Tier {
	case v1alpha2.AdminTier:
	case v1alpha2.BaselineTier:
		c.out.Tier = Baseline
	default:
		c.invalid(at.Child("tier"), consequence, "unknown tier %q, use Admin or Baseline", spec.Tier)
		c.closed, c.out.Priority = true, PriorityUnknown
	}
	if spec.Priority < 0 || spec.Priority > maxPriority {
		c.invalid(at.Child("priority"), consequence, "%d is no priority, use 0 to %d", spec.Priority, maxPriority)
		c.closed, c.out.Priority = true, PriorityUnknown
	}
}

// subject sets the matchers for the labels of namespaces and of pods in them.
func (c *compiler) subject(s *v1alpha2.ClusterNetworkPolicySubject, at *field.Path) {
	const consequence = "the policy selects every pod, accepts nothing and denies what it would pass"
	c.out.Namespaces, c.out.Subject = everyLabels, everyLabels
	switch {
	case s.Namespaces != nil && s.Pods != nil || s.Namespaces == nil && s.Pods == nil:
		c.problem(ReasonUnsupportedPeer, at, "the subject has not exactly one field that is known, use namespaces or pods; %s", consequence)
	case s.Namespaces != nil:
		if sel, ok := c.selector(s.Namespaces, at.Child("namespaces"), consequence); ok {
			c.out.Namespaces = sel.matcher()
			return
		}
	default:
		ns, nsOK := c.selector(&s.Pods.NamespaceSelector, at.Child("pods", "namespaceSelector"), consequence)
		sel, podsOK := c.selector(&s.Pods.PodSelector, at.Child("pods", "podSelector"), consequence)
		if nsOK && podsOK {
			c.out.Namespaces, c.out.Subject = ns.matcher(), sel.matcher()
			return
		}
	}
	c.closed = true
}

func (c *compiler) clusterRules(spec *v1alpha2.ClusterNetworkPolicySpec, at *field.Path) {
	for i := range spec.Ingress {
		r, here := &spec.Ingress[i], at.Child("ingress").Index(i)
		from := make([]v1alpha2.ClusterNetworkPolicyEgressPeer, len(r.From))
		for j := range r.From {
			from[j].Namespaces, from[j].Pods = r.From[j].Namespaces, r.From[j].Pods
		}
		c.clusterRule(Rule{Direction: Ingress, Index: i, Name: r.Name},
			r.Action, from, here, here.Child("from"), r.Protocols)
	}
	for i := range spec.Egress {
		r, here := &spec.Egress[i], at.Child("egress").Index(i)
		c.clusterRule(Rule{Direction: Egress, Index: i, Name: r.Name},
			r.Action, r.To, here, here.Child("to"), r.Protocols)
	}
}

// clusterRule completes r and adds it, even if it matches nothing.
func (c *compiler) clusterRule(r Rule, action v1alpha2.ClusterNetworkPolicyRuleAction,
	peers []v1alpha2.ClusterNetworkPolicyEgressPeer, at, peersAt *field.Path, protocols []v1alpha2.ClusterNetworkPolicyProtocol,
) {
	if strings.HasPrefix(r.Name, overBudget) { // the rule that CloseCluster made of all rules
		if r.Name = ""; action != v1alpha2.ClusterNetworkPolicyRuleActionAccept {
			r.Action, r.Peers = Deny, []Peer{{}}
			c.out.Rules = append(c.out.Rules, r)
		}
		return
	}
	r.Action = c.action(action, at.Child("action"))
	var peersOK, some, portsOK bool
	r.Peers, peersOK = c.clusterPeers(peers, peersAt, r.Action)
	r.Ports, some, portsOK = c.protocols(protocols, at.Child("protocols"), r.Action)
	readable := peersOK && portsOK
	switch {
	case r.Action == Accept && (!readable || c.closed), readable && !some:
		r.Peers, r.Ports = nil, nil
	case !readable:
		r.Peers, r.Ports = []Peer{{}}, nil
	}
	if r.Action == Pass && (!readable || c.closed) {
		r.Action = Deny
	}
	c.out.Rules = append(c.out.Rules, r)
}

// action returns the action of a rule. An unknown action is read as Deny, which closes.
func (c *compiler) action(a v1alpha2.ClusterNetworkPolicyRuleAction, at *field.Path) Action {
	if known := Action(a); slices.Contains([]Action{Accept, Deny, Pass}, known) {
		return known
	}
	c.invalid(at, "the rule denies", "unknown action %q, use Accept, Deny or Pass", a)
	return Deny
}

// unsupported notes an unknown part of a rule, which closes the rule. The message describes the
// part.
func (c *compiler) unsupported(at *field.Path, action Action, format string, args ...any) {
	c.problem(ReasonUnsupportedPeer, at, "%s; %s", fmt.Sprintf(format, args...), closes(action))
}

// closes returns what happens to a rule with an unreadable part.
func closes(action Action) string {
	if action == Accept {
		return "the rule matches nothing"
	}
	return "the rule denies everything"
}

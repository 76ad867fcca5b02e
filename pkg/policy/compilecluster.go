package policy

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/pkg/ipsets"
)

// CompileCluster gives cnp its meaning. It never fails and cnp stays unchanged. cnp may
// be refused by the CRD that we know, as a cluster may have another one. What cannot be
// expressed closes, and is named in the result's Problems:
//
//   - An IPv6 network is left out of its rule, a domain name of a rule that accepts, too.
//     A Deny with any network also blocks all IPv6 (see networks).
//   - A rule with anything else that we do not know matches nothing when it accepts, and
//     denies everything of its direction otherwise.
//   - A rule of an unknown action denies.
//   - A policy with a subject, tier or priority that we do not know accepts nothing, and
//     denies what it would pass. Without a subject it selects every pod. Without a tier
//     it is of the Admin tier, and without a priority the first of its tier.
//   - A policy over ClusterBytes accepts nothing, and denies everything of
//     a direction in which it does more than accept. A large subject is every pod then.
func CompileCluster(cnp *v1alpha2.ClusterNetworkPolicy) Cluster {
	spec := field.NewPath("spec")
	c := clusterCompiler{compiler: compiler{malformed: ReasonUnsupportedPeer, defined: map[ipsets.Name]bool{}}}
	out := Cluster{Name: cnp.Name}
	out.Tier, out.Priority = c.place(&cnp.Spec, spec)
	if excess := cmp.Or(closedCluster(&cnp.Spec), clusterExcess(sizeOfCluster(&cnp.Spec))); excess != "" {
		out.Namespaces, out.Pods = c.tooLarge(&cnp.Spec, spec, excess)
	} else {
		out.Namespaces, out.Pods = c.subject(&cnp.Spec.Subject, spec.Child("subject"))
		c.clusterRules(&cnp.Spec, spec)
	}
	out.Rules, out.Sets, out.Problems, out.Found = c.rules, c.sortedSets(), c.problems, c.found
	return out
}

// clusterCompiler collects what CompileCluster finds on its way through one policy.
type clusterCompiler struct {
	compiler
	rules []ClusterRule
	// closed: of the policy as a whole not enough is known to accept or pass anything.
	closed bool
}

// everyLabels is the selector without a term.
var everyLabels LabelMatcher = matcher{labels.Everything()}

// PriorityUnknown is the priority of a policy whose own is none: before all others of its
// tier, so that what it denies nobody accepts.
const PriorityUnknown = -1

// maxPriority is the last one of the API.
const maxPriority = 1000

// place says when the policy has its say.
func (c *clusterCompiler) place(spec *v1alpha2.ClusterNetworkPolicySpec, at *field.Path) (Tier, int32) {
	const consequence = "the policy comes first, accepts nothing and denies what it would pass"
	tier, priority := Admin, spec.Priority
	switch spec.Tier {
	case v1alpha2.AdminTier:
	case v1alpha2.BaselineTier:
		tier = Baseline
	default:
		c.invalid(at.Child("tier"), consequence, "unknown tier %q, use Admin or Baseline", spec.Tier)
		c.closed, priority = true, PriorityUnknown
	}
	if spec.Priority < 0 || spec.Priority > maxPriority {
		c.invalid(at.Child("priority"), consequence, "%d is no priority, use 0 to %d", spec.Priority, maxPriority)
		c.closed, priority = true, PriorityUnknown
	}
	return tier, priority
}

// subject returns the matchers for the labels of namespaces and of pods in them.
func (c *clusterCompiler) subject(s *v1alpha2.ClusterNetworkPolicySubject, at *field.Path) (namespaces, pods LabelMatcher) {
	const consequence = "the policy selects every pod, accepts nothing and denies what it would pass"
	namespaces, pods = everyLabels, everyLabels
	switch {
	case s.Namespaces != nil && s.Pods != nil || s.Namespaces == nil && s.Pods == nil:
		c.problem(ReasonUnsupportedPeer, at, "the subject has not exactly one field that is known, use namespaces or pods; %s", consequence)
	case s.Namespaces != nil:
		if sel, ok := c.selector(s.Namespaces, at.Child("namespaces"), consequence); ok {
			return sel.matcher(), pods
		}
	default:
		ns, nsOK := c.selector(&s.Pods.NamespaceSelector, at.Child("pods", "namespaceSelector"), consequence)
		sel, podsOK := c.selector(&s.Pods.PodSelector, at.Child("pods", "podSelector"), consequence)
		if nsOK && podsOK {
			return ns.matcher(), sel.matcher()
		}
	}
	c.closed = true
	return namespaces, pods
}

func (c *clusterCompiler) clusterRules(spec *v1alpha2.ClusterNetworkPolicySpec, at *field.Path) {
	for i := range spec.Ingress {
		r, here := &spec.Ingress[i], at.Child("ingress").Index(i)
		from := make([]v1alpha2.ClusterNetworkPolicyEgressPeer, len(r.From))
		for j := range r.From {
			from[j].Namespaces, from[j].Pods = r.From[j].Namespaces, r.From[j].Pods
		}
		c.clusterRule(ClusterRule{Direction: Ingress, Index: i, Name: r.Name},
			r.Action, from, here, here.Child("from"), r.Protocols)
	}
	for i := range spec.Egress {
		r, here := &spec.Egress[i], at.Child("egress").Index(i)
		c.clusterRule(ClusterRule{Direction: Egress, Index: i, Name: r.Name},
			r.Action, r.To, here, here.Child("to"), r.Protocols)
	}
}

// clusterRule completes r and emits it, with the sets that it needs. A rule that matches
// nothing is there, too.
func (c *clusterCompiler) clusterRule(r ClusterRule, action v1alpha2.ClusterNetworkPolicyRuleAction,
	peers []v1alpha2.ClusterNetworkPolicyEgressPeer, at, peersAt *field.Path, protocols []v1alpha2.ClusterNetworkPolicyProtocol,
) {
	r.Action = c.action(action, at.Child("action"))
	candidates, peersOK := c.clusterPeers(peers, peersAt, r.Action)
	ports, some, portsOK := c.protocols(protocols, at.Child("protocols"), r.Action)
	readable := peersOK && portsOK
	switch {
	case r.Action == Accept && (!readable || c.closed), readable && !some:
		candidates, ports = nil, nil
	case !readable:
		candidates, ports = []candidate{{}}, nil
	}
	if r.Action == Pass && (!readable || c.closed) {
		r.Action = Deny
	}
	r.Ports = ports
	for _, p := range candidates {
		r.Peers = append(r.Peers, p.peer)
		for _, def := range p.defs {
			c.need(def, r.Action)
		}
	}
	c.rules = append(c.rules, r)
}

// need defines a set for a rule: under its own name when the rule may allow, as a deny
// twin when it may deny.
func (c *clusterCompiler) need(def SetDef, action Action) {
	if action != Deny {
		c.define(def)
	}
	if action == Accept {
		return
	}
	c.define(def.Deny())
	if def.Name.Kind() != ipsets.KindNodes {
		c.define(SetDef{Name: ipsets.Doubt()})
	}
}

// action reads an action. It is Deny, which closes, when it is none.
func (c *clusterCompiler) action(a v1alpha2.ClusterNetworkPolicyRuleAction, at *field.Path) Action {
	if known := Action(a); slices.Contains([]Action{Accept, Deny, Pass}, known) {
		return known
	}
	c.invalid(at, "the rule denies", "unknown action %q, use Accept, Deny or Pass", a)
	return Deny
}

// unsupported notes a part of a rule that is of no kind that we know, which closes the
// rule. The message says what it is.
func (c *clusterCompiler) unsupported(at *field.Path, action Action, format string, args ...any) {
	c.problem(ReasonUnsupportedPeer, at, "%s; %s", fmt.Sprintf(format, args...), closes(action))
}

// closes says what becomes of a rule with a part that we cannot read.
func closes(action Action) string {
	if action == Accept {
		return "the rule matches nothing"
	}
	return "the rule denies everything"
}

package explain

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/match"
)

// Decider names the policy or rule that decides at one end.
type Decider struct {
	// Policy is ClusterNetworkPolicy/name, or namespace/name of a NetworkPolicy: the first that allows the
	// connection, or, if it is blocked, the first that isolates the pod. It is empty if no policy decides.
	Policy string `json:"policy"`
	Tier   string `json:"tier,omitempty"` // Admin, NetworkPolicy or Baseline; empty if no policy decides
	// Rule is the index of a ClusterNetworkPolicy's rule in its direction, from 0; nil for NetworkPolicies.
	// RuleName is its name, if it has one.
	Rule     *int   `json:"rule,omitempty"`
	RuleName string `json:"ruleName,omitempty"`
	// Passed are the Pass rules that matched before, in order.
	Passed []Passed `json:"passed,omitempty"`
}

// Passed is a rule of a ClusterNetworkPolicy that passes a connection to the next tier.
type Passed struct {
	Policy string `json:"policy"`
	Tier   string `json:"tier"`
	Rule   int    `json:"rule"`
}

// clusterPrefix precedes the name of a ClusterNetworkPolicy.
const clusterPrefix = "ClusterNetworkPolicy/"

// tierRule is a rule of a ClusterNetworkPolicy.
type tierRule struct {
	policy.Rule
	of     string // the policy's name with clusterPrefix
	policy *policy.Policy
}

// tierRulesOf compiles the ClusterNetworkPolicies of a dump, and returns their rules in the order of
// evaluation.
func tierRulesOf(dumped []state.ClusterPolicy) (out []tierRule) {
	var policies []*policy.Policy
	for _, d := range dumped {
		if d.Spec != nil {
			compiled := policy.CompileCluster(&v1alpha2.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: d.Name}, Spec: *d.Spec})
			policies = append(policies, &compiled)
		}
	}
	slices.SortFunc(policies, (*policy.Policy).Compare)
	for _, p := range policies {
		name, _ := p.Key.Cluster()
		for _, r := range p.Rules {
			out = append(out, tierRule{r, clusterPrefix + name, p})
		}
	}
	return out
}

// appliesTo reports whether the rule is about a direction of the pod of an end. If the labels of its
// namespace are unknown it does as the dataplane (ADR 24): every policy that may select the pod applies,
// without its Accept rules.
func (r *tierRule) appliesTo(own End, dir hns.DirectionType) bool {
	if own.pod.HostNetwork || (r.Direction == policy.Ingress) != (dir == hns.In) || !r.policy.Subject.Matches(own.pod.Labels) {
		return false
	}
	if own.namespace.known {
		return r.policy.Namespaces.Matches(own.namespace.labels)
	}
	return r.Action != policy.Accept
}

// tierResult is the result of evaluating the tiers at one end.
type tierResult struct {
	// rule decides. If it is nil, NetworkPolicies decide if namespaced is set, else no policy decides.
	rule       *tierRule
	namespaced bool
	passed     []Passed
}

// evaluateTiers evaluates the ClusterNetworkPolicy rules for a connection. A Deny rule that may match
// decides, other rules that may match are skipped. A Pass rule skips the rest of its tier; it denies if the
// labels of the pod's namespace are unknown.
func (c *Cluster) evaluateTiers(own, peer End, q question, isolated bool) tierResult {
	s, skipped := tierResult{namespaced: isolated}, policy.Namespaced
	for i := range c.tierRules {
		r := &c.tierRules[i]
		if isolated && r.policy.Tier != policy.Admin {
			break
		}
		if r.policy.Tier == skipped || !r.appliesTo(own, q.dir) {
			continue
		}
		deny := r.Action == policy.Deny || !own.namespace.known
		switch m := c.ruleMatches(r.Rule, own, peer, q); {
		case m == no || m == maybe && !deny:
		case r.Action == policy.Pass && !deny:
			s.passed = append(s.passed, Passed{Policy: r.of, Tier: r.policy.Tier.String(), Rule: r.Index})
			skipped = r.policy.Tier
		default:
			s.rule, s.namespaced = r, false
			return s
		}
	}
	return s
}

// truth is the truth value of a condition: maybe if the dump does not say.
type truth uint8

const (
	no truth = iota
	maybe
	yes
)

func truthOf(is bool) truth {
	if is {
		return yes
	}
	return no
}

// ruleMatches reports whether a rule matches a connection.
func (c *Cluster) ruleMatches(r policy.Rule, own, peer End, q question) truth {
	who, unclear := no, peer.unclear()
	for _, p := range r.Peers {
		who = max(who, c.isPeer(p, peer, unclear))
	}
	switch {
	case anyPort(r.Ports, destination(own, peer, q), q.packet):
	case q.dir == hns.Out && unclear && slices.ContainsFunc(r.Ports, func(p policy.Port) bool { // its port names are unknown
		return p.Name != "" && protocolNumbers[p.Protocol] == q.packet.Protocol
	}):
		return min(who, maybe)
	default:
		return no
	}
	return who
}

// destination returns the destination pod of the connection, nil if the destination is not a pod.
func destination(own, peer End, q question) *state.PodDump {
	if q.dir == hns.In {
		return own.pod
	}
	return peer.pod
}

// anyPort reports whether the packet's destination port is one of the ports; an empty list means every
// port. Named ports are looked up in the destination pod, which may be nil.
func anyPort(ports []policy.Port, pod *state.PodDump, packet match.Packet) bool {
	return len(ports) == 0 || slices.ContainsFunc(ports, func(p policy.Port) bool {
		if protocolNumbers[p.Protocol] != packet.Protocol {
			return false
		}
		port := packet.DstPort
		if p.Name != "" {
			return pod != nil && slices.Contains(pod.Ports, fmt.Sprintf("%s:%d/%s", p.Name, port, p.Protocol))
		}
		return p.First == 0 || p.First <= port && port <= p.Last
	})
}

// isPeer reports whether an end is a peer of a rule. It returns maybe if the end is unclear and the peer is
// not about addresses.
func (c *Cluster) isPeer(p policy.Peer, e End, unclear bool) truth {
	if len(p.Blocks) > 0 {
		return truthOf(slices.ContainsFunc(p.Blocks, func(b netip.Prefix) bool { return b.Contains(e.addr) }))
	}
	for _, name := range p.Sets {
		cond, ok := conditionOf(name)
		if !ok || !cond.ofAddress() && unclear {
			return maybe
		}
		if is, _ := c.isMember(cond, e); is != yes {
			return is
		}
	}
	return yes
}

// unclear reports whether the sets to which an end belongs are unknown.
func (e End) unclear() bool {
	return e.pod != nil && (!e.namespace.known || e.pod.InDoubt || e.pod.OverBudget != "")
}

// Decider returns the decider for Actual. If HNS does not have the desired rules, it is the first policy
// that the rules in HNS name.
func (c *Cluster) Decider(h Half) Decider {
	if h.Actual == Unknown || unfiltered(h.own, h.peer) != "" ||
		slices.ContainsFunc(h.rules, func(a hns.ACL) bool { return a.Ours() && a.Priority == hns.PriorityNode }) {
		return Decider{}
	}
	by := c.isolating(h.own.pod, h.q.dir)
	s := tierResult{namespaced: true}
	if !h.own.pod.InDoubt { // otherwise the rules combine the policies of several pods
		s = c.evaluateTiers(h.own, h.peer, h.q, len(by) > 0)
	}
	if h.Actual == Allowed {
		// Rules of a tier that a Pass rule skipped may match too.
		by = slices.DeleteFunc(policiesOf(h.rules), ofCluster)
	}
	switch {
	case s.namespaced && len(by) > 0:
		return Decider{Policy: by[0], Tier: policy.Namespaced.String(), Passed: s.passed}
	case !s.namespaced && s.rule == nil && h.Actual == Allowed && len(by) == 0:
		return Decider{Passed: s.passed}
	case s.rule != nil && (h.Actual == Allowed) == (s.rule.Action == policy.Accept):
		return Decider{
			Policy: s.rule.of, Tier: s.rule.policy.Tier.String(), Rule: &s.rule.Index, RuleName: s.rule.Name, Passed: s.passed,
		}
	}
	return Decider{Policy: append(policiesOf(h.rules), "")[0]}
}

// policiesOf returns the policies that the Ids of rules name, sorted.
func policiesOf(rules []hns.ACL) (out []string) {
	for _, a := range rules {
		if name := PolicyOf(a.ID); name != "" {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func ofCluster(policy string) bool { return strings.HasPrefix(policy, clusterPrefix) }

// PolicyOf returns the policy that the Id of an ACL names, "" if it names none.
func PolicyOf(id string) string {
	key, ok := match.PolicyOfACL(id)
	if !ok {
		return ""
	}
	if name, ok := key.Cluster(); ok {
		return clusterPrefix + name
	}
	return key.String()
}

// ruleText says that the rule of a ClusterNetworkPolicy accepts or denies.
func (d Decider) ruleText(v Verdict) string {
	switch {
	case v == Allowed && d.Tier == policy.Admin.String():
		return d.Text() + ", accepts it"
	case v == Allowed:
		return d.Text() + ", allows it"
	case d.Tier == policy.Admin.String():
		return d.Text() + ", denies it, and no NetworkPolicy can change that"
	}
	return d.Text() + ", denies it, as no NetworkPolicy isolates the pod"
}

// Text names the policy for a sentence, with the rule and the tier of a ClusterNetworkPolicy.
func (d Decider) Text() string {
	if d.Rule == nil {
		return d.Policy
	}
	text := fmt.Sprintf("rule %d", *d.Rule)
	if d.RuleName != "" {
		text += fmt.Sprintf(" (%s)", d.RuleName)
	}
	return fmt.Sprintf("%s of %s, tier %s", text, d.Policy, d.Tier)
}

func passedText(passed []Passed) string {
	if len(passed) == 0 {
		return ""
	}
	var rules []string
	for _, p := range passed {
		rules = append(rules, fmt.Sprintf("rule %d of %s, tier %s", p.Rule, p.Policy, p.Tier))
	}
	return list(rules, "and then") + " passed it on; "
}

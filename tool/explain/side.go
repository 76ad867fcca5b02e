package explain

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// directionWord returns the word of the Kubernetes API for a direction.
func directionWord(dir hns.DirectionType) string {
	if dir == hns.In {
		return "ingress"
	}
	return "egress"
}

// side evaluates the endpoints of one end and describes the result.
func (c *Cluster) side(own, peer End, q question, places Places) Side {
	out := Side{End: own.Name, Note: own.note, Contested: own.contested(), Isolating: []string{}, Misses: []Miss{}}
	if own.pod != nil {
		out.Pod = own.pod.Pod
	}
	if why := unfiltered(own, peer); why != "" {
		out.Judged = true
		out.Actual = newState(Allowed, why)
		out.Wanted = out.Actual
		return out
	}
	switch {
	case !own.pod.Local:
		out.Note = fmt.Sprintf("%s runs on another node: ask the agent there for this half", own.pod.Pod)
		return out
	case len(own.endpoints) == 0:
		out.Note = fmt.Sprintf("%s has no endpoint in HNS, as far as known: its network is not set up yet, or is gone", own.pod.Pod)
		return out
	}
	out.Judged, out.Start = true, own.pod.Start
	out.Isolating = c.isolating(own.pod, q.dir)
	x := explainer{c: c, q: q, peer: peer, places: places}
	out.Actual, out.Wanted = x.state(c.actual(own, q), own, out.Isolating), x.state(c.desired(own, q), own, out.Isolating)
	for _, ep := range own.endpoints {
		c.pending(&out, ep, q.dir)
	}
	if out.Wanted.Verdict == Blocked && !own.pod.InDoubt && (peer.pod == nil || !peer.pod.InDoubt) { // otherwise the pod's labels do not matter
		out.Misses = c.misses(own, peer, q, places)
	}
	return out
}

// unfiltered says why HNS filters nothing at an end; it returns "" if HNS may filter there. Traffic of a
// pod to itself does not reach the switch, and an end that is not a pod has no endpoint.
func unfiltered(own, peer End) string {
	switch {
	case own.pod == nil:
		return "nothing is filtered there"
	case own.addr == peer.addr:
		return "what a pod sends to itself does not pass the switch"
	}
	return ""
}

// endpointsOf returns the endpoints of a pod, if it runs on this node.
func (c *Cluster) endpointsOf(pod *state.PodDump) []*state.EndpointDump {
	if !pod.Local {
		return nil
	}
	var eps []*state.EndpointDump
	for _, id := range pod.Endpoints {
		if ep := c.endpoints[id]; ep != nil {
			eps = append(eps, ep)
		}
	}
	return eps
}

// Half is the verdict at one end: a Side without texts.
type Half struct {
	Judged bool
	Actual Verdict

	c         *Cluster
	own, peer End
	q         question
	rules     []hns.ACL // the rules in HNS that decide; none if nothing is filtered
}

// Wanted returns the verdict of the desired rules.
func (h Half) Wanted() Verdict {
	if unfiltered(h.own, h.peer) != "" {
		return Allowed
	}
	return h.c.desired(h.own, h.q).verdict
}

// Policies returns the policies that decide for Actual, sorted: the deciding ClusterNetworkPolicy, or the
// NetworkPolicies that allow the connection, or, if it is blocked, the NetworkPolicies that isolate the
// pod.
func (c *Cluster) Policies(h Half) []string {
	d := c.Decider(h)
	switch {
	case d.Policy == "":
		return nil
	case d.Rule != nil:
		return []string{d.Policy}
	case h.Actual == Blocked:
		return c.isolating(h.own.pod, h.q.dir)
	}
	return policiesOf(h.rules)
}

// Between returns the verdicts at both ends of a connection to a port.
func (c *Cluster) Between(from, to End, port uint16, protocol policy.Protocol) (egress, ingress Half) {
	p := packet(from, to, port, protocol)
	return c.half(from, to, question{hns.Out, p}), c.half(to, from, question{hns.In, p})
}

// half is side without texts.
func (c *Cluster) half(own, peer End, q question) Half {
	h := Half{Judged: true, Actual: Allowed, c: c, own: own, peer: peer, q: q}
	if unfiltered(own, peer) == "" {
		d := c.actual(own, q)
		h.Judged, h.Actual, h.rules = len(own.endpoints) > 0, d.verdict, d.traced.Matched
	}
	return h
}

// pending sets Pending and Since of a side if an endpoint, or a set of its rules, differs from the desired
// state.
func (c *Cluster) pending(out *Side, ep *state.EndpointDump, dir hns.DirectionType) {
	note := func(is bool, since time.Time) {
		out.Pending = out.Pending || is || !since.IsZero()
		if !since.IsZero() && (out.Since.IsZero() || since.Before(out.Since)) {
			out.Since = since
		}
	}
	note(!ep.Known, ep.Since)
	for _, a := range slices.Concat(ep.Applied, ep.Wanted) {
		if a.Direction != dir {
			continue
		}
		for _, s := range c.setsOf(a) {
			note(s.Unknown || len(s.Missing)+len(s.Surplus) > 0, s.Since)
		}
	}
}

// setsOf returns the sets that a rule names, and the members of nested sets.
func (c *Cluster) setsOf(a hns.ACL) (out []*state.SetDump) {
	for _, id := range a.SetIDs() {
		s := c.setByID[id]
		out = append(out, s)
		if s != nil && s.Type == string(hns.NestedIPSet) {
			for _, m := range slices.Concat(s.Members, s.Surplus) {
				out = append(out, c.setByName[m])
			}
		}
	}
	return slices.DeleteFunc(out, func(s *state.SetDump) bool { return s == nil })
}

func (x explainer) state(d decision, own End, isolating []string) *State {
	x.ep = d.list.endpoint
	s := newState(d.verdict, d.reason)
	for _, a := range d.traced.Matched {
		s.Rules = append(s.Rules, x.rule(a, x.c.views[d.list.view]))
	}
	if d.verdict == Unknown {
		return s
	}
	s.Decider = x.c.Decider(Half{Actual: d.verdict, rules: d.traced.Matched, own: own, peer: x.peer, q: x.q})
	switch {
	case s.Rule != nil:
		s.Why = s.ruleText(d.verdict)
	case d.verdict == Allowed:
		x.allowed(s, own, isolating)
	default:
		s.Tried = x.tried(d)
		x.blocked(s, d, own, isolating)
	}
	s.Why = passedText(s.Passed) + s.Why
	return s
}

func (x explainer) allowed(s *State, own End, isolating []string) {
	var paths []string
	var other *hns.ACL
	for i, r := range s.Rules {
		switch {
		case r.Policy == "":
			other = &s.Rules[i].ACL
		case s.Tier == policy.Namespaced.String() && ofCluster(r.Policy): // of a tier with a Pass rule that matched
		default:
			paths = append(paths, r.name())
		}
	}
	slices.Sort(paths)
	paths = slices.Compact(paths)
	switch {
	case len(paths) > 0:
		verb := "allows"
		if len(paths) > 1 {
			verb = "allow"
		}
		s.Why = fmt.Sprintf("policy %s %s it", list(paths, "and policy"), verb)
	case other == nil:
		s.Why = "the endpoint has no rules, so nothing is filtered"
	case other.Priority >= hns.PriorityDefault && len(isolating) > 0:
		s.Why = fmt.Sprintf("the rule that isolates %s for %s is not in HNS", own.pod.Pod, directionWord(x.q.dir))
	case other.Priority >= hns.PriorityDefault:
		s.Why = fmt.Sprintf("no policy isolates %s for %s", own.pod.Pod, directionWord(x.q.dir))
	case other.Priority == hns.PriorityNode && other.Ours():
		s.Why = "the node may always come in, for the kubelet's probes"
	default:
		s.Why = fmt.Sprintf("rule %s (priority %d), no policy's, allows it", cmp.Or(other.ID, "without id"), other.Priority)
	}
}

// name returns the policy of the rule and the rule's path in it.
func (r Rule) name() string {
	if len(r.Path) == 0 {
		return r.Policy + " (a rule that it no longer has)"
	}
	return r.Policy + " " + list(r.Path, "and")
}

func (x explainer) blocked(s *State, d decision, own End, isolating []string) {
	word := directionWord(x.q.dir)
	kind, verb, their := "policies", "isolate", "their"
	if len(isolating) == 1 {
		kind, verb, their = "policy", "isolates", "its"
	}
	switch {
	case d.traced.Default && len(isolating) == 0:
		s.Why = "no rule of the endpoint matches, and HNS blocks what no rule matches"
	case len(isolating) > 0 && (d.traced.Default || isolates(s.Rules[0].ACL) || s.Tier == policy.Namespaced.String()):
		s.Why = fmt.Sprintf("%s %s %s %s for %s, and none of %s rules allows this", kind, list(isolating, "and"), verb, own.pod.Pod, word, their)
	case s.Policy != "" && s.Tier == "":
		s.Why = fmt.Sprintf("a rule of %s is in HNS that should not decide this", s.Policy)
	case isolates(s.Rules[0].ACL):
		s.Why = fmt.Sprintf("a block rule is in HNS, but no policy isolates %s for %s any more", own.pod.Pod, word)
	default:
		s.Why = fmt.Sprintf("rule %s (priority %d), no policy's, blocks it", cmp.Or(s.Rules[0].ACL.ID, "without id"), s.Rules[0].ACL.Priority)
	}
}

// isolates reports whether an ACL is the agent's block rule for isolated pods.
func isolates(a hns.ACL) bool {
	return a.Ours() && PolicyOf(a.ID) == "" && a.Action == hns.Block && a.MatchesAll()
}

package explain

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// directionWord is the API's word.
func directionWord(dir hns.Direction) string {
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
		out.Actual = &State{Verdict: Allowed, Why: why, Rules: []Rule{}, Tried: []Rule{}}
		out.Wanted = out.Actual
		return out
	}
	eps := own.endpoints
	switch {
	case !own.pod.Local:
		out.Note = fmt.Sprintf("%s runs on another node: ask the agent there for this half", own.pod.Pod)
		return out
	case len(eps) == 0:
		out.Note = fmt.Sprintf("%s has no endpoint in HNS, as far as known: its network is not set up yet, or is gone", own.pod.Pod)
		return out
	}
	out.Judged, out.Start = true, own.pod.Start
	out.Isolating = c.Isolating(own.pod, q.dir == hns.In)
	for _, ep := range eps {
		x := &explainer{c: c, ep: ep, q: q, peer: peer, places: places}
		actual, wanted := c.actual(ep, q), c.wanted(ep, q)
		out.Actual = stricter(out.Actual, x.state(actual, own, out.Isolating))
		out.Wanted = stricter(out.Wanted, x.state(wanted, own, out.Isolating))
		c.pending(&out, ep, q.dir)
	}
	if out.Wanted.Verdict == Blocked && !own.pod.InDoubt && (peer.pod == nil || !peer.pod.InDoubt) { // no label helps
		out.Misses = c.misses(own, peer, q, out.Wanted.Tried, places)
	}
	return out
}

// unfiltered says why everything passes at an end; "" when it may not. What a
// pod says to itself never reaches the switch, and what is no pod has no
// endpoint.
func unfiltered(own, peer End) string {
	switch {
	case own.pod == nil:
		return "nothing is filtered there"
	case own.addr == peer.addr:
		return "what a pod sends to itself does not pass the switch"
	}
	return ""
}

// endpointsOf returns the endpoints of a pod of this node.
func (c *Cluster) endpointsOf(pod *state.Pod) []*state.Endpoint {
	if !pod.Local {
		return nil
	}
	var eps []*state.Endpoint
	for _, id := range pod.Endpoints {
		if ep := c.endpoints[id]; ep != nil {
			eps = append(eps, ep)
		}
	}
	return eps
}

// Half is what one end says, without the words of a Side.
type Half struct {
	Judged         bool
	Actual, Wanted Verdict
	// Rules of HNS decide for Actual; none where nothing is filtered.
	Rules []hns.ACL

	own, peer End
	q         question
}

// Policies returns those that decide for Actual, sorted: those that allow, or when it
// is blocked those that isolate the pod; none when no policy did. Of several
// ClusterNetworkPolicies only one decides.
func (c *Cluster) Policies(h Half) []string {
	d := c.Decider(h)
	switch {
	case d.Policy == "" || d.Rule != nil:
		return nonEmpty(d.Policy)
	case h.Actual == Blocked:
		return c.Isolating(h.own.pod, h.q.dir == hns.In)
	}
	var out []string
	for _, a := range h.Rules {
		out = append(out, nonEmpty(policyOf(a.ID))...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// nonEmpty returns a list of a name, without any when it is empty.
func nonEmpty(name string) []string {
	if name == "" {
		return nil
	}
	return []string{name}
}

// Decider returns what decides for Actual.
func (c *Cluster) Decider(h Half) Decider {
	if h.own.pod == nil || unfiltered(h.own, h.peer) != "" {
		return Decider{}
	}
	return c.decider(h.own, h.peer, h.q, h.Actual, h.Rules)
}

// halves asks both ends; the question has no direction yet.
func (c *Cluster) halves(from, to End, q question) (egress, ingress Half) {
	out, in := q, q
	out.dir, in.dir = hns.Out, hns.In
	return c.half(from, to, out), c.half(to, from, in)
}

// half is side without the words.
func (c *Cluster) half(own, peer End, q question) Half {
	if unfiltered(own, peer) != "" {
		return Half{Judged: true, Actual: Allowed, Wanted: Allowed, own: own, peer: peer, q: q}
	}
	out := Half{Actual: Unknown, Wanted: Unknown, own: own, peer: peer, q: q}
	for i, ep := range own.endpoints {
		actual := c.actual(ep, q)
		if i == 0 || strictness[actual.verdict] > strictness[out.Actual] {
			out.Actual, out.Rules = actual.verdict, actual.traced.Matched
		}
		out.Judged = true
		if q.actualOnly {
			continue
		}
		if wanted := c.wanted(ep, q).verdict; i == 0 || strictness[wanted] > strictness[out.Wanted] {
			out.Wanted = wanted
		}
	}
	return out
}

// strictness orders the verdicts of a pod's endpoints: one that blocks decides
// for the pod, else one that is not known.
var strictness = map[Verdict]int{Allowed: 0, Unknown: 1, Blocked: 2}

// stricter returns the state that decides for a pod with several endpoints.
func stricter(a, b *State) *State {
	if a == nil || strictness[b.Verdict] > strictness[a.Verdict] {
		return b
	}
	return a
}

// pending notes that HNS is not as it should be where it matters for the side,
// and since when.
func (c *Cluster) pending(out *Side, ep *state.Endpoint, dir hns.Direction) {
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
		for _, id := range a.SetIDs() {
			s := c.setByID[id]
			if s == nil {
				continue
			}
			note(differs(s), s.Since)
			for _, leaf := range c.leavesOf(s) {
				note(differs(leaf), leaf.Since)
			}
		}
	}
}

// leavesOf returns the sets that a nested set has or should have.
func (c *Cluster) leavesOf(s *state.Set) []*state.Set {
	if s.Type != string(hns.NestedIPSet) {
		return nil
	}
	var out []*state.Set
	for _, m := range slices.Concat(s.Members, s.Surplus) {
		if leaf := c.setByName[m]; leaf != nil {
			out = append(out, leaf)
		}
	}
	return out
}

// differs reports whether HNS has something else than it should.
func differs(s *state.Set) bool {
	return s.Unknown || len(s.Missing)+len(s.Surplus) > 0
}

// state words a decision.
func (x *explainer) state(d decision, own End, isolating []string) *State {
	s := &State{Verdict: d.verdict, Rules: []Rule{}, Tried: []Rule{}}
	for _, a := range d.traced.Matched {
		s.Rules = append(s.Rules, x.rule(a, d.view))
	}
	if d.verdict == Unknown {
		s.Why = d.reason
		return s
	}
	s.Decider = x.c.decider(own, x.peer, x.q, d.verdict, d.traced.Matched)
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

// allowed says why a connection passes.
func (x *explainer) allowed(s *State, own End, isolating []string) {
	var paths []string
	var other *hns.ACL
	for i, r := range s.Rules {
		switch {
		case r.Policy == "":
			other = &s.Rules[i].ACL
		case s.Tier == policy.Namespaced.String() && ofCluster(r.Policy): // of a tier that was passed
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

// name returns the policy of the rule and the rule's place in it.
func (r Rule) name() string {
	if len(r.Path) == 0 {
		return r.Policy + " (a rule that it has no more)"
	}
	return r.Policy + " " + list(r.Path, "and")
}

// blocked says why a connection does not pass.
func (x *explainer) blocked(s *State, d decision, own End, isolating []string) {
	word := directionWord(x.q.dir)
	none := "none of their rules allows this"
	if len(isolating) == 1 {
		none = "none of its rules allows this"
	}
	switch {
	case d.traced.Default && len(isolating) == 0:
		s.Why = "no rule of the endpoint matches, and HNS blocks what no rule matches"
	case len(isolating) > 0 && (d.traced.Default || isolates(s.Rules[0].ACL) || s.Tier == policy.Namespaced.String()):
		verb := "isolates"
		kind := "policy"
		if len(isolating) > 1 {
			verb, kind = "isolate", "policies"
		}
		s.Why = fmt.Sprintf("%s %s %s %s for %s, and %s", kind, list(isolating, "and"), verb, own.pod.Pod, word, none)
	case s.Policy != "" && s.Tier == "":
		s.Why = fmt.Sprintf("a rule of %s is in HNS that should not decide this", s.Policy)
	case isolates(s.Rules[0].ACL):
		s.Why = fmt.Sprintf("a block rule is in HNS, but no policy isolates %s for %s any more", own.pod.Pod, word)
	default:
		s.Why = fmt.Sprintf("rule %s (priority %d), no policy's, blocks it", cmp.Or(s.Rules[0].ACL.ID, "without id"), s.Rules[0].ACL.Priority)
	}
}

// isolates reports whether a rule is ours, and blocks a direction for all policies that
// isolate the pod.
func isolates(a hns.ACL) bool {
	return a.Ours() && policyOf(a.ID) == "" && a.Action == hns.Block && a.MatchesAll()
}

// explainer explains what one endpoint says to one packet.
type explainer struct {
	c      *Cluster
	ep     *state.Endpoint
	q      question
	peer   End
	places Places
}

// peerAddr is the other end's address.
func (x *explainer) peerAddr() netip.Addr {
	if x.q.dir == hns.In {
		return x.q.packet.Src
	}
	return x.q.packet.Dst
}

// rule compares one ACL with the packet. The ACL must parse.
func (x *explainer) rule(a hns.ACL, v *view) Rule {
	a = a.Canonical() // a dump of another build may spell it otherwise
	out := Rule{ACL: a, Path: []string{}, Checks: []Check{}, Words: x.c.setNames.Peer(a) + ", " + PortsText(a)}
	var rules []int
	if out.Policy, rules = x.origin(a); out.Policy != "" {
		for _, i := range rules {
			path := rulePath(a.Direction, i)
			out.Path = append(out.Path, path)
			if line := x.places.Rule(out.Policy, path); line != "" {
				out.Lines = append(out.Lines, line)
			}
		}
	}
	r, err := hns.ParseRule(a, v.find)
	if err != nil {
		return out
	}
	for _, field := range []struct {
		text string
		hns.Addresses
	}{{r.ACL.LocalAddresses, r.Local}, {r.ACL.RemoteAddresses, r.Remote}} {
		out.Checks = append(out.Checks, x.checkField(field.text, field.Addresses, v)...)
	}
	if r.Protocol != hns.EveryProtocol || len(r.Ports) > 0 {
		ok := r.MatchesPort(&x.q.packet)
		out.Checks = append(out.Checks, Check{
			What: PortsText(a), OK: ok, Why: fmt.Sprintf("the connection is to %s", x.portText()), kind: PortNumber,
		})
	}
	return out
}

// portText says what is connected to.
func (x *explainer) portText() string {
	p := x.q.packet
	return fmt.Sprintf("%s %d", cmp.Or(protocolNames[fmt.Sprint(p.Protocol)], fmt.Sprint(p.Protocol)), p.DstPort)
}

// origin returns the policy that a canonical ACL came from, "" for none, and the indexes
// of its rules there; none of an ACL that is not desired.
func (x *explainer) origin(a hns.ACL) (string, []int) {
	for i, w := range x.ep.Wanted {
		switch {
		case w.Canonical() != a:
		case i < len(x.ep.Tiers) && x.ep.Tiers[i].Policy == "":
			return "", nil
		case i < len(x.ep.Tiers):
			from := x.ep.Tiers[i]
			if from.Tier != policy.Namespaced.String() {
				from.Policy = clusterPrefix + from.Policy
			}
			return from.Policy, []int{from.Rule}
		case i < len(x.ep.WantedRules):
			return policyOf(a.ID), x.ep.WantedRules[i]
		}
	}
	return policyOf(a.ID), nil
}

// rulePath is where a policy has a rule.
func rulePath(dir hns.Direction, i int) string {
	if dir == hns.In {
		return fmt.Sprintf("spec.ingress[%d]", i)
	}
	return fmt.Sprintf("spec.egress[%d]", i)
}

// checkField compares one address field with the packet.
func (x *explainer) checkField(text string, field hns.Addresses, v *view) []Check {
	switch {
	case len(field.Literals) > 0 || field.IPv6:
		ok := field.Literals.Contain(x.peerAddr())
		word := "is not in it"
		if ok {
			word = "is in it"
		}
		return []Check{{What: shorten(text), OK: ok, Why: fmt.Sprintf("%s %s", x.peerAddr(), word)}}
	case len(field.Sets) == 0:
		return nil
	}
	var out []Check
	for i, id := range strings.Split(text, ",") {
		if i < len(field.Sets) {
			out = append(out, x.checkSet(id, field.Sets[i], v))
		}
	}
	slices.SortFunc(out, func(a, b Check) int { return cmp.Compare(a.What, b.What) })
	return out
}

// shorten keeps a list of literals on one line.
func shorten(text string) string {
	blocks := strings.Split(text, ",")
	if len(blocks) > shownBlocks {
		return fmt.Sprintf("%s or %d more", strings.Join(blocks[:shownBlocks-1], " or "), len(blocks)-shownBlocks+1)
	}
	return strings.Join(blocks, " or ")
}

// checkSet says whether the other end is in a set, and why.
func (x *explainer) checkSet(id string, s *hns.Set, v *view) Check {
	name := cmp.Or(x.c.setNames[id], id)
	out := Check{What: name, OK: s.Has(x.peerAddr())}
	d := x.c.setByID[id]
	if v.actual && (d == nil || d.Unknown || !d.InHNS) {
		out.Why = "what is in HNS is not known"
		return out
	}
	cond, ok := conditionOf(name, d != nil && d.Type == string(hns.NestedIPSet))
	yes, known, why := false, false, ""
	if ok {
		yes, known, why = x.c.holds(cond, x.peer)
		out.kind, out.reqs = cond.changes(), cond.reqs
	}
	switch {
	case known && yes == out.OK:
		out.Why = why
	case out.OK && len(s.Members) == 0 && s.Type == hns.NestedIPSet:
		out.Why = "HNS has the set without any member, and then it matches everything" + x.sinceText(d)
	case known && yes:
		out.Why = why + ", but it is not in the set" + x.sinceText(d)
	case known:
		out.Why = why + ", and yet it is in the set" + x.sinceText(d)
	case out.OK:
		out.Why = fmt.Sprintf("%s is in it", x.peerAddr())
	default:
		out.Why = fmt.Sprintf("%s is not in it", x.peerAddr())
	}
	return out
}

// sinceText says since when a set is not as it should be.
func (x *explainer) sinceText(d *state.Set) string {
	if d == nil || d.Since.IsZero() {
		return ""
	}
	return ": HNS is behind since " + timeText(d.Since)
}

// tried returns the allow rules of policies in the packet's direction, those
// that fail least first.
func (x *explainer) tried(d decision) []Rule {
	out := []Rule{}
	for _, a := range d.acls {
		if policyOf(a.ID) == "" || a.Direction != x.q.dir || a.Action != hns.Allow || a.RuleType == hns.Host {
			continue
		}
		out = append(out, x.rule(a, d.view))
	}
	slices.SortStableFunc(out, func(a, b Rule) int {
		return cmp.Or(cmp.Compare(a.failing(), b.failing()), cmp.Compare(a.Policy, b.Policy))
	})
	return out
}

// failing counts the conditions that do not hold.
func (r Rule) failing() int {
	n := 0
	for _, c := range r.Checks {
		if !c.OK {
			n++
		}
	}
	return n
}

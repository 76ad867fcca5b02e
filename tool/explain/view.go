package explain

import (
	"errors"
	"fmt"
	"slices"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/match"
)

// The views of a cluster.
const (
	closed = iota // as HNS has the sets; what is not known has nothing in it
	open          // as HNS has them; what is not known has everything in it
	wanted        // as they should be
)

// view is the sets as HNS has them, or as it should.
type view struct {
	c      *Cluster
	actual bool
	open   bool
	sets   map[string]viewed // by id
}

// viewed is a set in a view.
type viewed struct {
	set   *match.Set
	doubt bool // something in it is not known
}

// set returns the set of an id; without any set when the dump has none.
func (v *view) set(id string) viewed {
	if s, ok := v.sets[id]; ok {
		return s
	}
	var s viewed
	if d := v.c.setByID[id]; d != nil {
		s = v.build(d)
	}
	v.sets[id] = s
	return s
}

// unknown stands for a set of which nothing is known.
func (v *view) unknown() viewed {
	if v.open {
		return viewed{&match.Set{Type: hns.NestedIPSet}, true} // without members it matches everything
	}
	return viewed{&match.Set{Type: hns.IPSet}, true}
}

func (v *view) build(d *state.SetDump) viewed {
	if v.actual && (d.Unknown || !d.InHNS) {
		return v.unknown()
	}
	if d.Type != string(hns.NestedIPSet) {
		return viewed{set: v.leaf(d)}
	}
	out := viewed{set: &match.Set{Type: hns.NestedIPSet}}
	if !v.actual || !slices.Contains(d.Missing, ipsets.Empty().String()) {
		out.set.Members = append(out.set.Members, &match.Set{Type: hns.IPSet}) // the permanent one
	}
	for _, name := range v.members(d) {
		m := v.c.setByName[name]
		switch {
		case m == nil || m.Type == string(hns.NestedIPSet):
			return v.unknown()
		case v.actual && (m.Unknown || !m.InHNS):
			if out.doubt = true; v.open {
				return v.unknown()
			}
		default:
			out.set.Members = append(out.set.Members, v.leaf(m))
		}
	}
	return out
}

// members returns the members of a set, without the permanent one.
func (v *view) members(d *state.SetDump) []string {
	if !v.actual {
		return d.Members
	}
	missing := make(map[string]bool, len(d.Missing))
	for _, m := range d.Missing {
		missing[m] = true
	}
	out := slices.DeleteFunc(slices.Clone(d.Members), func(m string) bool { return missing[m] })
	return append(out, d.Surplus...)
}

// leaf returns an IPSET.
func (v *view) leaf(d *state.SetDump) *match.Set {
	s := &match.Set{Type: hns.IPSet}
	for _, text := range v.members(d) {
		if sp, ok := match.ParseSpan(text); ok {
			s.Spans = append(s.Spans, sp)
		}
	}
	s.Spans = s.Spans.Sorted()
	return s
}

// decision is what one list of rules says.
type decision struct {
	list    listKey
	verdict Verdict
	reason  string // why it is unknown
	traced  match.Verdict
}

// question is a packet at an endpoint of this node.
type question struct {
	dir        hns.Direction
	packet     match.Packet
	brief      bool  // the rules are not asked for
	actualOnly bool  // Half.Wanted is not asked for
	near       *Pair // whose ends these are, if there are many questions about them
}

// listKey names a list of ours at an endpoint in a view: applied, or one that
// may be there.
type listKey struct {
	endpoint *state.EndpointDump
	view     int
	maybe    int // of the views of HNS, when what is there is not known
}

// acls returns the rules of the list.
func (k listKey) acls() []hns.ACL {
	switch {
	case k.view == wanted:
		return k.endpoint.Wanted
	case k.endpoint.Known:
		return k.endpoint.Applied
	}
	return k.endpoint.Maybe[k.maybe]
}

// inHNS returns how many lists of rules of ours an endpoint may have.
func inHNS(ep *state.EndpointDump) int {
	if ep.Known {
		return 1
	}
	return len(ep.Maybe)
}

// parsed is the rules of an endpoint, those of others included.
type parsed struct {
	rules []*match.Rule
	doubt bool  // something in their sets is not known
	err   error // what they do is not known
}

var errTiered = errors.New("the endpoint has tiered rules, whose effect is not known")

// parse takes the rules of an endpoint apart, once.
func (c *Cluster) parse(key listKey) parsed {
	if l, ok := c.lists[key]; ok {
		return l
	}
	var l parsed
	for _, a := range slices.Concat(key.endpoint.ForeignRules, key.acls()) {
		r, err := match.ParseRule(a, func(id string) *match.Set {
			s := c.views[key.view].set(id)
			l.doubt = l.doubt || s.doubt
			return s.set
		})
		if err != nil {
			l.err = fmt.Errorf("what a rule does is not known: %w", err)
			break
		}
		l.rules = append(l.rules, r)
	}
	if l.err == nil && key.endpoint.Tiered {
		l.err = errTiered
	}
	c.lists[key] = l
	return l
}

// decide returns what the endpoints of an end say by the rules that HNS has, and by those that it
// should have: of several endpoints the strictest.
func (c *Cluster) decide(own End, q question) (actual, should decision) {
	actual.verdict, should.verdict = Unknown, Unknown
	for i, ep := range own.endpoints {
		if d := c.actual(ep, q); i == 0 || strictness[d.verdict] > strictness[actual.verdict] {
			actual = d
		}
		if q.actualOnly {
			continue
		}
		if d, _ := c.ask(listKey{ep, wanted, 0}, q); i == 0 || strictness[d.verdict] > strictness[should.verdict] {
			should = d
		}
	}
	return actual, should
}

// strictness orders the verdicts of a pod's endpoints: one that blocks decides
// for the pod, else one that is not known.
var strictness = map[Verdict]int{Allowed: 0, Unknown: 1, Blocked: 2}

// actual decides over what is in HNS: over every list that may be there, and
// where sets are not known over the two extremes. All must agree.
func (c *Cluster) actual(ep *state.EndpointDump, q question) decision {
	first := decision{verdict: Unknown, reason: "what is on the endpoint is not known"}
	for i := range inHNS(ep) {
		for _, in := range []int{closed, open} {
			d, doubt := c.ask(listKey{ep, in, i}, q)
			if i == 0 && in == closed {
				first = d
			}
			if d.verdict == Unknown || d.verdict != first.verdict {
				d.verdict = Unknown
				if d.reason == "" {
					d.reason = "the outcome of the last write to HNS is not known"
				}
				return d
			}
			if !doubt {
				break
			}
		}
	}
	return first
}

// ask asks the switch with one list of rules. It reports also whether something in their sets is
// not known.
func (c *Cluster) ask(key listKey, q question) (decision, bool) {
	var l parsed
	if q.near != nil {
		l = q.near.near(key, q.dir)
	} else {
		l = c.parse(key)
	}
	d := decision{list: key, verdict: Unknown}
	err := l.err
	switch {
	case err != nil:
	case q.brief:
		d.traced.Allowed, err = q.packet.Passes(l.rules, q.dir)
	default:
		d.traced, err = match.Decide(slices.Values(l.rules), q.dir, q.packet)
	}
	switch {
	case err != nil:
		d.reason = err.Error()
	case d.traced.Allowed:
		d.verdict = Allowed
	default:
		d.verdict = Blocked
	}
	return d, l.doubt
}

// Pair is the two ends of connections, for questions about many ports. It looks through all
// rules once, and keeps those that the addresses of the ends meet: of a thousand rules with a
// block and a port each, that is one.
type Pair struct {
	// Wanted asks also what HNS should have.
	Wanted bool

	c        *Cluster
	from, to End
	packet   match.Packet
	lists    []nearList // few: those of the endpoints of two pods
}

// nearList is what is kept of one list of rules.
type nearList struct {
	key listKey
	dir hns.Direction
	parsed
}

// Pair returns the pair of two ends, which are named as in a Question.
func (c *Cluster) Pair(from, to string) (*Pair, error) {
	source, destination, err := c.ends(Question{From: from, To: to})
	return &Pair{c: c, from: source, to: destination, packet: packet(source, destination, 0, policy.TCP)}, err
}

// Halves is Cluster.Between; without Half.Wanted, unless p.Wanted.
func (p *Pair) Halves(port uint16, protocol policy.Protocol) (egress, ingress Half) {
	return p.c.halves(p.from, p.to, question{packet: packet(p.from, p.to, port, protocol), actualOnly: !p.Wanted, near: p})
}

// Edges returns the ports at which the verdict may change: where a rule of HNS begins or ends that
// decides on any port; if p.Wanted, also a rule that HNS should have.
func (p *Pair) Edges() Edges {
	e := Edges{}
	for _, side := range []struct {
		own, peer End
		dir       hns.Direction
	}{{p.from, p.to, hns.Out}, {p.to, p.from, hns.In}} {
		add := func(key listKey) {
			for _, r := range p.near(key, side.dir).rules {
				if r.ACL.Direction == side.dir {
					e.Add(r.ACL)
				}
			}
		}
		if unfiltered(side.own, side.peer) != "" {
			continue
		}
		for _, ep := range side.own.endpoints {
			for i := range inHNS(ep) {
				add(listKey{ep, closed, i})
				add(listKey{ep, open, i})
			}
			if p.Wanted {
				add(listKey{ep, wanted, 0})
			}
		}
	}
	return e
}

// near returns the rules of a list that can decide between the two addresses. The first rule of
// the switch stays in any case, as it turns filtering on; so does each rule with source ports, as
// it makes the answer unknown.
func (p *Pair) near(key listKey, dir hns.Direction) parsed {
	for i := range p.lists {
		if l := &p.lists[i]; l.key == key && l.dir == dir {
			return l.parsed
		}
	}
	l := p.c.parse(key)
	rules := l.rules
	l.rules = nil
	for _, r := range rules {
		if r.ACL.RuleType != hns.Host && (len(l.rules) == 0 || r.ACL.Direction == dir && (r.Source || r.MatchesAddresses(&p.packet))) {
			l.rules = append(l.rules, r)
		}
	}
	p.lists = append(p.lists, nearList{key, dir, l})
	return l
}

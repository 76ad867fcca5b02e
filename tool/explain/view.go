package explain

import (
	"errors"
	"fmt"
	"slices"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/match"
)

// The views of a cluster's sets.
const (
	viewEmpty   = iota // the sets in HNS; unknown sets are taken as empty
	viewFull           // the sets in HNS; unknown sets are taken to contain every address
	viewDesired        // the desired sets
)

// view is the actual or the desired sets.
type view struct {
	c      *Cluster
	actual bool
	open   bool
	sets   map[string]viewed // by id
}

// viewed is a set in a view.
type viewed struct {
	set   *match.Set
	doubt bool // the set, or a member of it, is unknown in HNS
}

// set returns the set of an id. Its field set is nil if the dump has no such set.
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

// unknown returns the view of a set whose content is unknown.
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
		out.set.Members = append(out.set.Members, &match.Set{Type: hns.IPSet}) // the permanent empty member
	}
	for _, name := range v.members(d) {
		m := v.c.setByName[name]
		if m == nil || m.Type == string(hns.NestedIPSet) || v.actual && (m.Unknown || !m.InHNS) {
			if out.doubt = true; v.open {
				return v.unknown()
			}
			continue
		}
		out.set.Members = append(out.set.Members, v.leaf(m))
	}
	return out
}

// members returns the names or blocks in a set.
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

// leaf returns a set of type IPSET.
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

// decision is the verdict of one list of rules.
type decision struct {
	list    listKey
	verdict Verdict
	reason  string // why the verdict is unknown
	traced  match.Verdict
}

// question asks for the verdict on a packet at the endpoints of one end.
type question struct {
	dir    hns.DirectionType
	packet match.Packet
}

// listKey identifies a list of our rules: the desired list of an endpoint, or one that it may have in HNS.
type listKey struct {
	endpoint *state.EndpointDump
	view     int
	maybe    int // index in possibleLists, if the view is of HNS
}

// acls returns the rules of the list.
func (k listKey) acls() []hns.ACL {
	if k.view == viewDesired {
		return k.endpoint.Wanted
	}
	return possibleLists(k.endpoint)[k.maybe]
}

// possibleLists returns the lists of our rules that an endpoint may have in HNS.
func possibleLists(ep *state.EndpointDump) [][]hns.ACL {
	if ep.Known {
		return [][]hns.ACL{ep.Applied}
	}
	return ep.Maybe
}

// parsed is the rules of an endpoint, including rules of other programs.
type parsed struct {
	rules []*match.Rule
	doubt bool  // one of their sets is unknown in HNS
	err   error // why their effect is unknown
}

// parse parses the rules of an endpoint, once.
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
		l.err = errors.New("the endpoint has tiered rules, whose effect is not known")
	}
	c.lists[key] = l
	return l
}

// actual returns the decision of an end's endpoints by the rules in HNS.
func (c *Cluster) actual(own End, q question) decision {
	return strictest(own, func(ep *state.EndpointDump) decision { return c.inHNS(ep, q) })
}

// desired returns the decision of an end's endpoints by the desired rules.
func (c *Cluster) desired(own End, q question) decision {
	return strictest(own, func(ep *state.EndpointDump) decision {
		d, _ := c.ask(listKey{ep, viewDesired, 0}, q)
		return d
	})
}

// strictest returns the strictest decision of an end's endpoints. It is Unknown without endpoints.
func strictest(own End, decide func(*state.EndpointDump) decision) (out decision) {
	out.verdict = Unknown
	for i, ep := range own.endpoints {
		if d := decide(ep); i == 0 || d.verdict != out.verdict && Worse(d.verdict, out.verdict) == d.verdict {
			out = d
		}
	}
	return out
}

// inHNS returns the decision by the rules in HNS. It tries every list that may be there, and with unknown
// sets both as empty and as full. If the verdicts differ, the result is Unknown.
func (c *Cluster) inHNS(ep *state.EndpointDump, q question) decision {
	first := decision{verdict: Unknown, reason: "what is on the endpoint is not known"}
	for i := range possibleLists(ep) {
		for _, in := range []int{viewEmpty, viewFull} {
			d, doubt := c.ask(listKey{ep, in, i}, q)
			if i == 0 && in == viewEmpty {
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

// ask evaluates one list of rules as the switch does. It also reports whether one of their sets is unknown.
func (c *Cluster) ask(key listKey, q question) (decision, bool) {
	l := c.parse(key)
	d := decision{list: key, verdict: Unknown}
	err := l.err
	if err == nil {
		d.traced, err = match.Decide(l.rules, q.dir, q.packet)
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

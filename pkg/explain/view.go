package explain

import (
	"errors"
	"fmt"
	"slices"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
)

// view is the sets as HNS has them, or as it should.
type view struct {
	c      *cluster
	actual bool
	// What is not known is taken for a set of everything when open, else for one
	// of nothing; doubt tells that this was done.
	open  bool
	doubt bool
	sets  map[string]*hns.Set // by id
}

func (c *cluster) view(actual, open bool) *view {
	return &view{c: c, actual: actual, open: open, sets: map[string]*hns.Set{}}
}

// set returns the set of an id, nil when the dump has none.
func (v *view) set(id string) *hns.Set {
	if s := v.sets[id]; s != nil {
		return s
	}
	d := v.c.setByID[id]
	if d == nil {
		return nil
	}
	s := v.build(d)
	v.sets[id] = s
	return s
}

// unknown stands for a set of which nothing is known.
func (v *view) unknown() *hns.Set {
	v.doubt = true
	if v.open {
		return &hns.Set{Type: hns.NestedIPSet} // without members it matches everything
	}
	return &hns.Set{Type: hns.IPSet}
}

func (v *view) build(d *dataplane.SetDump) *hns.Set {
	if v.actual && (d.Unknown || !d.InHNS) {
		return v.unknown()
	}
	members := v.members(d)
	if d.Type != string(hns.NestedIPSet) {
		return leaf(members)
	}
	s := &hns.Set{Type: hns.NestedIPSet}
	if !v.actual || !slices.Contains(d.Missing, ipsets.Empty().String()) {
		s.Members = append(s.Members, &hns.Set{Type: hns.IPSet}) // the permanent one
	}
	for _, name := range members {
		m := v.c.setByName[name]
		switch {
		case m == nil || m.Type == string(hns.NestedIPSet):
			return v.unknown()
		case v.actual && (m.Unknown || !m.InHNS):
			if v.doubt = true; v.open {
				return v.unknown()
			}
		default:
			s.Members = append(s.Members, leaf(v.members(m)))
		}
	}
	return s
}

// members returns the members of a set, without the permanent one.
func (v *view) members(d *dataplane.SetDump) []string {
	if !v.actual {
		return d.Members
	}
	out := slices.DeleteFunc(slices.Clone(d.Members), func(m string) bool { return slices.Contains(d.Missing, m) })
	return append(out, d.Surplus...)
}

func leaf(members []string) *hns.Set {
	s := &hns.Set{Type: hns.IPSet}
	for _, text := range members {
		if sp, ok := hns.ParseSpan(text); ok {
			s.Spans = append(s.Spans, sp)
		}
	}
	s.Spans = s.Spans.Sorted()
	return s
}

// decision is what one list of rules says.
type decision struct {
	verdict Verdict
	reason  string // why it is unknown
	traced  hns.Verdict
	acls    []hns.ACL // ours
	view    *view
}

// question is a packet at an endpoint of this node.
type question struct {
	dir    hns.Direction
	packet hns.Packet
}

// actual decides over what is in HNS: over every list that may be there, and
// where sets are not known over the two extremes. All must agree.
func (c *cluster) actual(ep *dataplane.EndpointDump, q question) decision {
	lists := [][]hns.ACL{ep.Applied}
	if !ep.Known {
		lists = ep.Maybe
	}
	var first *decision
	for _, acls := range lists {
		for _, open := range []bool{false, true} {
			d := c.decide(ep, acls, c.view(true, open), q)
			if first == nil {
				first = &d
			}
			if d.verdict == Unknown || d.verdict != first.verdict {
				d.verdict = Unknown
				if d.reason == "" {
					d.reason = "the outcome of the last write to HNS is not known"
				}
				return d
			}
			if !d.view.doubt {
				break
			}
		}
	}
	if first == nil {
		return decision{verdict: Unknown, reason: "what is on the endpoint is not known", view: c.view(true, false)}
	}
	return *first
}

// wanted decides over what should be in HNS.
func (c *cluster) wanted(ep *dataplane.EndpointDump, q question) decision {
	return c.decide(ep, ep.Wanted, c.view(false, false), q)
}

var errTiered = errors.New("the endpoint has tiered rules, whose effect is not known")

// decide asks the switch.
func (c *cluster) decide(ep *dataplane.EndpointDump, acls []hns.ACL, v *view, q question) decision {
	d := decision{acls: acls, view: v, verdict: Unknown}
	rules, err := parseRules(slices.Concat(ep.ForeignRules, acls), v)
	if err == nil && ep.Tiered {
		err = errTiered
	}
	if err == nil {
		d.traced, err = hns.Decide(slices.Values(rules), q.dir, q.packet)
	}
	switch {
	case err != nil:
		d.reason = err.Error()
	case d.traced.Allowed:
		d.verdict = Allowed
	default:
		d.verdict = Blocked
	}
	return d
}

func parseRules(acls []hns.ACL, v *view) ([]*hns.Rule, error) {
	out := make([]*hns.Rule, len(acls))
	for i, a := range acls {
		r, err := hns.ParseRule(a, v.set)
		if err != nil {
			return nil, fmt.Errorf("what a rule does is not known: %w", err)
		}
		out[i] = r
	}
	return out, nil
}

package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/match"
)

// explainer explains the verdict of one endpoint on one packet.
type explainer struct {
	c      *Cluster
	ep     *state.EndpointDump
	q      question
	peer   End
	places Places
}

// rule compares one ACL with the packet. If the ACL does not parse, the result has no checks.
func (x explainer) rule(a hns.ACL, v *view) Rule {
	a = a.Canonical() // a dump of another version may have another spelling
	out := Rule{ACL: a, Path: []string{}, Checks: []Check{}, Words: x.c.setNames.Peer(a) + ", " + PortsText(a)}
	var rules []int
	if out.Policy, rules = x.origin(a); out.Policy != "" {
		for _, i := range rules {
			path := rulePath(a.Direction, i)
			out.Path = append(out.Path, path)
			if line := x.places[out.Policy+" "+path]; line != "" {
				out.Lines = append(out.Lines, line)
			}
		}
	}
	r, err := match.ParseRule(a, func(id string) *match.Set { return v.set(id).set })
	if err != nil {
		return out
	}
	for _, field := range []struct {
		text string
		match.Addresses
	}{{r.ACL.LocalAddresses, r.Local}, {r.ACL.RemoteAddresses, r.Remote}} {
		out.Checks = append(out.Checks, x.checkField(field.text, field.Addresses, v)...)
	}
	if r.Protocol != match.EveryProtocol || len(r.Ports) > 0 {
		p := &x.q.packet
		to := cmp.Or(protocolNames[fmt.Sprint(p.Protocol)], fmt.Sprint(p.Protocol))
		out.Checks = append(out.Checks, Check{
			What: PortsText(a), OK: r.MatchesPort(p), Why: fmt.Sprintf("the connection is to %s %d", to, p.DstPort),
		})
	}
	return out
}

// origin returns the policy of a canonical ACL, or "", and the indexes of the policy's rules that it
// implements. An ACL that is not desired has no indexes.
func (x explainer) origin(a hns.ACL) (string, []int) {
	for i, w := range x.ep.Wanted {
		switch {
		case w.Canonical() != a:
		case i >= len(x.ep.Sources):
		case x.ep.Sources[i].Policy == "":
			return "", nil
		default:
			from := x.ep.Sources[i]
			if from.Tier != policy.Namespaced.String() {
				from.Policy = clusterPrefix + from.Policy
			}
			return from.Policy, from.Rules
		}
	}
	return PolicyOf(a.ID), nil
}

func rulePath(dir hns.DirectionType, i int) string {
	return fmt.Sprintf("spec.%s[%d]", directionWord(dir), i)
}

// checkField compares one address field of an ACL with the other end.
func (x explainer) checkField(text string, field match.Addresses, v *view) []Check {
	switch {
	case len(field.Literals) > 0 || field.IPv6:
		ok := field.Literals.Contain(x.peer.addr)
		return []Check{{What: shorten(text), OK: ok, Why: x.isIn(ok)}}
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

// shorten joins a list of blocks with "or", and replaces all but the first few by their number.
func shorten(text string) string {
	return strings.Join(some(strings.Split(text, ","), shownBlocks), " or ")
}

// checkSet reports whether the other end is a member of a set, and why.
func (x explainer) checkSet(id string, s *match.Set, v *view) Check {
	name := cmp.Or(x.c.setNames[id], id)
	out := Check{What: name, OK: s.Has(x.peer.addr)}
	d := x.c.setByID[id]
	if v.actual && (d == nil || d.Unknown || !d.InHNS) {
		out.Why = "what is in HNS is not known"
		return out
	}
	is, why := maybe, ""
	if n, ok := ipsets.ParseName(name, d != nil && d.Type == string(hns.NestedIPSet)); ok {
		if cond, ok := conditionOf(n); ok {
			is, why = x.c.isMember(cond, x.peer)
		}
	}
	switch {
	case is == truthOf(out.OK):
		out.Why = why
	case out.OK && len(s.Members) == 0 && s.Type == hns.NestedIPSet:
		out.Why = "HNS has the set without any member, and then it matches everything" + x.sinceText(d)
	case is == yes:
		out.Why = why + ", but it is not in the set" + x.sinceText(d)
	case is == no:
		out.Why = why + ", and yet it is in the set" + x.sinceText(d)
	default:
		out.Why = x.isIn(out.OK)
	}
	return out
}

// isIn says whether the address of the other end is in a set or block.
func (x explainer) isIn(is bool) string {
	if is {
		return fmt.Sprintf("%s is in it", x.peer.addr)
	}
	return fmt.Sprintf("%s is not in it", x.peer.addr)
}

// sinceText says since when HNS lacks a change of the set.
func (x explainer) sinceText(d *state.SetDump) string {
	if d == nil || d.Since.IsZero() {
		return ""
	}
	return ": HNS is behind since " + timeText(d.Since)
}

// tried returns the policies' allow rules in the packet's direction. Rules with the fewest failing checks
// come first.
func (x explainer) tried(d decision) []Rule {
	out := []Rule{}
	for _, a := range d.list.acls() {
		if PolicyOf(a.ID) == "" || a.Direction != x.q.dir || a.Action != hns.Allow || a.RuleType == hns.Host {
			continue
		}
		out = append(out, x.rule(a, x.c.views[d.list.view]))
	}
	slices.SortStableFunc(out, func(a, b Rule) int {
		return cmp.Or(cmp.Compare(a.failing(), b.failing()), cmp.Compare(a.Policy, b.Policy))
	})
	return out
}

func (r Rule) failing() int {
	n := 0
	for _, c := range r.Checks {
		if !c.OK {
			n++
		}
	}
	return n
}

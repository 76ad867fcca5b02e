package explain

import (
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// Pair is the two ends of connections, for questions about many ports. It looks through all
// rules once, and keeps those that the addresses of the ends meet: of a thousand rules with a
// block and a port each, that is one.
type Pair struct {
	// Wanted asks also what HNS should have.
	Wanted bool

	c        *Cluster
	from, to End
	packet   hns.Packet
	lists    []nearList // few: those of the endpoints of two pods
}

// nearList is what is kept of one list of rules.
type nearList struct {
	key listKey
	dir hns.Direction
	parsed
}

// Pair returns a pair of ends.
func (c *Cluster) Pair(from, to End) *Pair {
	return &Pair{c: c, from: from, to: to, packet: packet(from, to, 0, policy.TCP)}
}

// Halves is Cluster.Between; without Half.Wanted, unless p.Wanted.
func (p *Pair) Halves(port uint16, protocol policy.Protocol) (egress, ingress Half) {
	return p.c.halves(p.from, p.to, question{packet: packet(p.from, p.to, port, protocol), actualOnly: !p.Wanted, near: p})
}

// Edges returns the ports at which the verdict may change: where a rule of HNS begins or ends that
// decides on any port; if p.Wanted, also a rule that HNS should have.
func (p *Pair) Edges() Edges {
	e := Edges{}
	p.addEdges(e, p.from, p.to, hns.Out)
	p.addEdges(e, p.to, p.from, hns.In)
	return e
}

func (p *Pair) addEdges(e Edges, own, peer End, dir hns.Direction) {
	if unfiltered(own, peer) != "" {
		return
	}
	add := func(key listKey, acls []hns.ACL) {
		for _, r := range p.near(key, dir, acls).rules {
			if r.ACL.Direction == dir {
				e.Add(r.ACL)
			}
		}
	}
	for _, ep := range own.endpoints {
		for i, acls := range inHNS(ep) {
			add(listKey{ep, closed, i}, acls)
			add(listKey{ep, open, i}, acls)
		}
		if p.Wanted {
			add(listKey{ep, wanted, 0}, ep.Wanted)
		}
	}
}

// near returns the rules of a list that can decide between the two addresses. The first rule of
// the switch stays in any case, as it turns filtering on; so does each rule with source ports, as
// it makes the answer unknown.
func (p *Pair) near(key listKey, dir hns.Direction, acls []hns.ACL) parsed {
	for i := range p.lists {
		if l := &p.lists[i]; l.key == key && l.dir == dir {
			return l.parsed
		}
	}
	l := p.c.parse(key, acls)
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

// inHNS returns the lists of rules of ours that an endpoint may have.
func inHNS(ep *state.Endpoint) [][]hns.ACL {
	if ep.Known {
		return [][]hns.ACL{ep.Applied}
	}
	return ep.Maybe
}

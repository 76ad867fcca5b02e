package acl_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/test/effort"
	"github.com/winnpm/winnpm/tool/match"
)

// TestTiersModel plays all packets of a small world against the list of random rules and
// against a naive reading of the rules. With sets that are exact both agree. With plain
// sets that lack members, deny twins that have too many and addresses in doubt, no packet is
// allowed that the rules deny.
func TestTiersModel(t *testing.T) {
	effort.Checks(t, effort.Of(1500, 40_000))
	seen := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		admin, tail := drawTier(t, "admin", 5), drawTail(t)
		o := acl.Options{ID: ipsets.Name.ID, Limit: 1000}
		if rapid.IntRange(0, 3).Draw(t, "limited") == 0 {
			o.Limit = rapid.IntRange(1, 30).Draw(t, "acls")
		}
		got, fits := acl.Render(append(rulesFrom(policy.Admin, admin), rulesFrom(policy.Baseline, tail)...), o)
		if !fits {
			seen["over"]++
			return // who asks has to close
		}
		checkRuns(t, got)
		exact, doubtful := w.sets(0), w.sets(rapid.Uint64Min(1).Draw(t, "seed"))
		for _, p := range w.packets() {
			want, by := naive(admin, tail, p)
			seen[by]++
			if is, at := verdict(t, got, exact, p); is != want {
				t.Fatalf("%+v: %v by ACL %d, and the rules say %v by %s\n%s", p, is, at, want, by, textOf(got))
			}
			if is, at := verdict(t, got, doubtful, p); is && !want {
				t.Fatalf("in doubt %+v: allowed by ACL %d, and the rules deny it by %s\n%s", p, at, by, textOf(got))
			}
		}
	})
	if effort.Deep() {
		for _, by := range []string{"Accept of admin", "Deny of admin", "Accept after Pass", "Deny after Pass", "Pass of tail", "Pass of tail after Pass", "Accept of tail", "Deny of tail", "over"} {
			if seen[by] == 0 {
				t.Errorf("%s never came up: %v", by, slices.Sorted(maps.Keys(seen)))
			}
		}
	}
	t.Logf("packets by what decided them: %v", seen)
}

// peer is one address and what is true of it.
type peer struct {
	addr      netip.Addr
	namespace string // of a pod; "" for others
	team      string // label of the namespace
	app       string // label of the pod
	role      string // label of a node; "" for others
}

type packet struct {
	peer     peer
	protocol string // also ICMP, which has no port
	port     int
}

type world struct{ peers []peer }

func drawWorld(t *rapid.T) world {
	var w world
	for i, addr := range []string{"10.0.0.1", "10.0.0.200", "10.1.0.1", "11.0.0.1", "200.0.0.1"} {
		p := peer{addr: netip.MustParseAddr(addr)}
		switch rapid.IntRange(0, 3).Draw(t, fmt.Sprintf("kind of %d", i)) {
		case 0:
		case 1:
			p.role = rapid.SampledFrom([]string{"a", "b"}).Draw(t, "role")
		default:
			p.namespace = rapid.SampledFrom([]string{"x", "y"}).Draw(t, "namespace")
			p.team = map[string]string{"x": "a", "y": "b"}[p.namespace]
			p.app = rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "app")
		}
		w.peers = append(w.peers, p)
	}
	return w
}

func (w world) packets() []packet {
	var out []packet
	for _, p := range w.peers {
		out = append(out, packet{peer: p, protocol: "ICMP"})
		for port := 1; port <= 5; port++ {
			out = append(out, packet{p, "TCP", port})
		}
		out = append(out, packet{p, "UDP", 2}, packet{p, "UDP", 5})
	}
	return out
}

// term is what a peer must be, and the set of those that are.
type term struct {
	set   ipsets.Name
	holds func(peer) bool
}

var terms = []term{
	{ipsets.Namespace("x"), func(p peer) bool { return p.namespace == "x" }},
	{ipsets.Namespace("y"), func(p peer) bool { return p.namespace == "y" }},
	{ipsets.AllNamespaces(), func(p peer) bool { return p.namespace != "" }},
	{ipsets.NamespaceLabel("team", "a"), func(p peer) bool { return p.team == "a" }},
	{ipsets.NamespaceLabel("team", "b"), func(p peer) bool { return p.team == "b" }},
	{ipsets.PodLabel("app", "a"), func(p peer) bool { return p.app == "a" }},
	{ipsets.PodLabel("app", "b"), func(p peer) bool { return p.app == "b" }},
	{ipsets.NestedLabel("app", "b", "c"), func(p peer) bool { return p.app == "b" || p.app == "c" }},
	{ipsets.PodSelector("", "app!=a"), func(p peer) bool { return p.namespace != "" && p.app != "a" }},
	{ipsets.Nodes(""), func(p peer) bool { return p.role != "" }},
	{ipsets.Nodes("role=a"), func(p peer) bool { return p.role == "a" }},
}

type portRange struct {
	protocol    string
	first, last int // 0 is every port
}

// clause is an alternative of a rule: its terms all hold, one of its blocks and one of
// its ranges; none mean everyone and everything.
type clause struct {
	terms  []term
	blocks []string
	ports  []portRange
}

func (c clause) has(p packet) bool {
	for _, t := range c.terms {
		if !t.holds(p.peer) {
			return false
		}
	}
	in := len(c.blocks) == 0
	for _, b := range c.blocks {
		in = in || netip.MustParsePrefix(b).Contains(p.peer.addr)
	}
	via := len(c.ports) == 0
	for _, r := range c.ports {
		via = via || r.protocol == p.protocol && (r.first == 0 || r.first <= p.port && p.port <= r.last)
	}
	return in && via
}

type rule struct {
	action  string
	from    string
	clauses []clause
}

func (r rule) has(p packet) bool {
	return slices.ContainsFunc(r.clauses, func(c clause) bool { return c.has(p) })
}

// naive reads the rules as the API says it: whether the packet is allowed, and by what.
func naive(admin, tail []rule, p packet) (allowed bool, by string) {
	after := " of tail"
	for _, r := range admin {
		if !r.has(p) {
			continue
		}
		if r.action != "Pass" {
			return r.action == "Accept", r.action + " of admin"
		}
		after = " after Pass"
		break
	}
	for _, r := range tail {
		if r.has(p) {
			if r.action == "Pass" && after == " after Pass" {
				return true, "Pass of tail after Pass"
			}
			return r.action != "Deny", r.action + after
		}
	}
	return false, "nothing"
}

func drawTier(t *rapid.T, name string, most int) []rule {
	var out []rule
	for i := range rapid.IntRange(0, most).Draw(t, name) {
		r := rule{action: rapid.SampledFrom([]string{"Accept", "Deny", "Pass"}).Draw(t, "action"), from: fmt.Sprintf("%s%d", name, i)}
		for range rapid.IntRange(0, 3).Draw(t, "clauses") {
			r.clauses = append(r.clauses, drawClause(t))
		}
		out = append(out, r)
	}
	return out
}

// drawTail draws NetworkPolicies that isolate, or the Baseline tier and the default.
func drawTail(t *rapid.T) []rule {
	out := drawTier(t, "tail", 4)
	end := rule{action: "Accept", from: "default", clauses: []clause{{}}}
	if rapid.Bool().Draw(t, "isolated") {
		end.action = "Deny"
		for i := range out {
			out[i].action = "Accept"
		}
	}
	return append(out, end)
}

func drawClause(t *rapid.T) clause {
	var c clause
	for range rapid.SampledFrom([]int{0, 1, 1, 2}).Draw(t, "terms") {
		c.terms = append(c.terms, rapid.SampledFrom(terms).Draw(t, "term"))
	}
	if len(c.terms) == 0 {
		for range rapid.IntRange(0, 2).Draw(t, "blocks") {
			c.blocks = append(c.blocks, rapid.SampledFrom([]string{"10.0.0.0/8", "10.0.0.0/24", "10.0.0.128/25", "10.1.0.0/16", "11.0.0.1/32", "0.0.0.0/0"}).Draw(t, "block"))
		}
	}
	for range rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "ports") {
		r := portRange{protocol: rapid.SampledFrom([]string{"TCP", "TCP", "UDP"}).Draw(t, "protocol")}
		if rapid.IntRange(0, 3).Draw(t, "whole") > 0 {
			r.first = rapid.IntRange(1, 5).Draw(t, "first")
			r.last = rapid.IntRange(r.first, 5).Draw(t, "last")
		}
		c.ports = append(c.ports, r)
	}
	return c
}

func rulesFrom(tier policy.Tier, rules []rule) []acl.ResolvedRule {
	var out []acl.ResolvedRule
	for _, r := range rules {
		to := acl.ResolvedRule{Action: policy.Action(r.action), From: acl.Source{Tier: tier, Name: r.from}}
		for _, c := range r.clauses {
			var a acl.Atom
			for _, t := range c.terms {
				a.Sets = append(a.Sets, t.set)
			}
			for _, b := range c.blocks {
				a.Blocks = append(a.Blocks, netip.MustParsePrefix(b))
			}
			if len(a.Blocks) > 0 {
				a.Blocks = policy.InBlocks(a.Blocks).Blocks // the fewest, as of a policy
			}
			for _, p := range c.ports {
				a.Ports = append(a.Ports, policy.Port{Protocol: policy.Protocol(p.protocol), First: uint16(p.first), Last: uint16(p.last)})
			}
			a.Ports = policy.Fewest(a.Ports)
			to.Atoms = append(to.Atoms, a)
		}
		out = append(out, to)
	}
	return out
}

// members says which addresses a set has.
type members func(n ipsets.Name, addr netip.Addr) bool

// sets returns the members of all sets. With seed 0 they are exact. With another one plain
// sets lack some, deny twins have some too many and lack some addresses in doubt.
func (w world) sets(seed uint64) members {
	chance := rand.New(rand.NewPCG(seed, 1))
	doubt, drawn := map[netip.Addr]bool{}, map[string]bool{}
	if seed > 0 {
		for _, p := range w.peers {
			doubt[p.addr] = chance.IntN(4) == 0
		}
	}
	return func(n ipsets.Name, addr netip.Addr) bool {
		key := fmt.Sprint(n, addr)
		if _, is := drawn[key]; !is {
			truth := w.truth(n, addr)
			always := n.Kind() == ipsets.KindNodes || n.Kind() == ipsets.KindInBlocks || n == ipsets.Doubt()
			switch {
			case seed == 0:
			case n == ipsets.Doubt():
				truth = doubt[addr] || chance.IntN(8) == 0
			case !n.Denies():
				truth = truth && chance.IntN(4) > 0 && (always || !doubt[addr])
			case !truth || doubt[addr] && !always:
				truth = chance.IntN(4) == 0
			}
			drawn[key] = truth
		}
		return drawn[key]
	}
}

func (w world) truth(n ipsets.Name, addr netip.Addr) bool {
	p := w.peers[slices.IndexFunc(w.peers, func(p peer) bool { return p.addr == addr })]
	if n.Kind() == ipsets.KindInBlocks {
		def, _ := policy.Definition(n)
		return slices.ContainsFunc(def.Blocks, func(b netip.Prefix) bool { return b.Contains(addr) })
	}
	for _, t := range terms {
		if t.set == n || t.set.Deny() == n {
			return t.holds(p)
		}
	}
	return false // Doubt
}

// verdict plays the ACLs as HNS does: the first that matches decides, and where none does the
// allow-all pair.
func verdict(t *rapid.T, acls []*acl.SourcedACL, in members, p packet) (allowed bool, at int) {
	protocol := map[string]uint8{"TCP": 6, "UDP": 17, "ICMP": 1}[p.protocol]
	is := match.Packet{Src: p.peer.addr, Dst: netip.MustParseAddr("10.9.9.9"), Protocol: protocol, DstPort: uint16(p.port)}
	for i, a := range acls {
		r, err := match.ParseRule(a.ACL, func(id string) *match.Set {
			n := a.Names[slices.IndexFunc(a.Names, func(n ipsets.Name) bool { return n.ID() == id })]
			if n.Denies() != (a.Action == hns.Block) {
				t.Fatalf("ACL %d names %s", i, n)
			}
			set := &match.Set{Type: hns.IPSet}
			if in(n, p.peer.addr) {
				span, _ := match.ParseSpan(p.peer.addr.String())
				set.Spans = match.Spans{span}
			}
			return set
		})
		if err != nil {
			t.Fatal(err)
		}
		if r.MatchesPort(&is) && r.MatchesAddresses(&is) {
			return a.Action != hns.Block, i
		}
	}
	return true, -1
}

// checkRuns: the numbers grow, and two actions never have one.
func checkRuns(t *rapid.T, acls []*acl.SourcedACL) {
	for i := 1; i < len(acls); i++ {
		if before, a := acls[i-1], acls[i]; before.Priority > a.Priority || before.Priority == a.Priority && before.Action != a.Action {
			t.Fatalf("ACL %d has a number before the last one's, or that of another action:\n%s", i, textOf(acls))
		}
	}
}

package acl

import (
	"fmt"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
)

// Step is one HNS request for an endpoint. For Add, ACLs are what is added; for
// Update they are the complete list of ours, the others' policies come from the
// read right before.
type Step struct {
	Verb hns.Verb
	ACLs []hns.ACL
}

// RuleText renders a rule in one line, as plans show it.
func RuleText(a hns.ACL) string {
	parts := []string{fmt.Sprint(a.Priority), strings.ToLower(string(a.Action)), strings.ToLower(string(a.Direction)), a.ID}
	for _, f := range []struct{ name, value string }{
		{"proto", a.Protocols}, {"local", a.LocalAddresses}, {"remote", a.RemoteAddresses},
		{"lports", a.LocalPorts}, {"rports", a.RemotePorts},
	} {
		if f.value != "" {
			parts = append(parts, f.name+"="+f.value)
		}
	}
	return strings.Join(parts, " ")
}

// Change is what Plan has to bridge for one endpoint.
type Change struct {
	Applied []hns.ACL // ours, known to be there
	Shared  []hns.ACL // desired, no policy's own
	Groups  []Share   // desired, by policy
	Unused  []hns.ACL // need not be there, but may stay
	Fresh   bool      // never written for the pod that owns it now
	Batch   int       // ACLs per Add
}

// Desired returns all that is desired.
func (c Change) Desired() (all []hns.ACL) {
	all = append(all, c.Shared...)
	for _, g := range c.Groups {
		all = append(all, g.ACLs...)
	}
	return all
}

// Share is what one policy wants on an endpoint.
type Share struct {
	Key      policy.Key
	Isolates [2]bool
	ACLs     []hns.ACL
}

// Plan returns the requests that turn Applied into what is desired; none
// when they mean the same.
//
// Only pure additions are batched, up to MaxAdds batches: each one reads the endpoint
// twice, so with more of them the work would grow with the square of the rules. What
// takes more is one Update, as any other change; on an endpoint that lacks its block
// after the first batch, so that it is closed however long a large request takes. A
// batch takes policies whole, so that the state after each is one that some of the
// changes alone would give; a policy that is larger than a batch is split, which leaves the state between more
// closed. What makes an ACL harmless (allow-all pair, node rule) goes first. On
// an endpoint that was never written for its pod the block goes in the first
// batch, together with a policy for each direction that it closes, even if that
// makes the batch larger; otherwise in the last.
func Plan(c Change) []Step {
	want := c.Desired()
	added, removed := Diff(c.Applied, want)
	if len(removed) > 0 {
		if _, essential := Diff(c.Applied, slices.Concat(want, c.Unused)); len(essential) > 0 {
			return []Step{{Verb: hns.Update, ACLs: want}}
		}
	}
	if len(added) == 0 {
		return nil
	}
	steps := c.additions(added)
	if len(steps) <= MaxAdds {
		return steps
	}
	whole := Step{Verb: hns.Update, ACLs: want}
	if c.Fresh && LacksBlock(c.Applied, c.Shared) {
		return []Step{steps[0], whole}
	}
	return []Step{whole}
}

// MaxAdds is how many batches of additions an endpoint is given.
const MaxAdds = 4

// additions packs what is to be added into Add requests.
func (c Change) additions(added []hns.ACL) []Step {
	missing := Count(added)
	take := func(acls []hns.ACL) (out []hns.ACL) {
		for _, a := range acls {
			if c := a.Canonical(); missing[c] > 0 {
				missing[c]--
				out = append(out, a)
			}
		}
		return out
	}
	var first, blocks []hns.ACL
	closes := map[hns.Direction]bool{}
	for _, a := range take(c.Shared) {
		if a.Priority == hns.PriorityBlock {
			blocks = append(blocks, a)
			closes[a.Direction] = true
		} else {
			first = append(first, a)
		}
	}
	groups := make([]Share, len(c.Groups))
	for i, g := range c.Groups {
		groups[i] = Share{g.Key, g.Isolates, take(g.ACLs)}
	}
	b := batcher{size: max(c.Batch, 1), open: first}
	if c.Fresh {
		b.open = append(b.open, blocks...)
		blocks = nil
		groups = b.serve(groups, closes)
	}
	for _, g := range groups {
		b.add(g.ACLs)
	}
	b.last(blocks)
	return b.steps
}

// smallest returns the place of the smallest policy that isolates a direction,
// or -1.
func smallest(groups []Share, d policy.Direction) int {
	best := -1
	for i, g := range groups {
		if g.Isolates[d] && (best < 0 || len(g.ACLs) < len(groups[best].ACLs)) {
			best = i
		}
	}
	return best
}

// batcher fills Add requests of a size.
type batcher struct {
	size  int
	open  []hns.ACL
	steps []Step
}

// serve puts, for each direction that blocks close, the smallest policy that isolates it
// into the open request, if it is no larger than one. It returns the other policies.
func (b *batcher) serve(groups []Share, closes map[hns.Direction]bool) []Share {
	for _, d := range policy.Directions {
		at := smallest(groups, d)
		if !closes[DirectionOf(d)] || at < 0 || len(groups[at].ACLs) > b.size {
			continue
		}
		b.open = append(b.open, groups[at].ACLs...)
		if groups[at].Isolates[policy.Egress] {
			closes[hns.Out] = false // this one serves both
		}
		groups = slices.Delete(groups, at, at+1)
	}
	return groups
}

// add puts a policy's rules into one request if they fit into any.
func (b *batcher) add(acls []hns.ACL) {
	if len(b.open) > 0 && len(b.open)+len(acls) > b.size {
		b.flush()
	}
	for len(acls) > b.size {
		b.open = acls[:b.size]
		acls = acls[b.size:]
		b.flush()
	}
	b.open = append(b.open, acls...)
}

// last adds the block rules to the last request, which may exceed the size by
// them, and ends.
func (b *batcher) last(blocks []hns.ACL) {
	b.open = append(b.open, blocks...)
	b.flush()
}

func (b *batcher) flush() {
	if len(b.open) > 0 {
		b.steps = append(b.steps, Step{Verb: hns.Add, ACLs: slices.Clone(b.open)})
		b.open = nil
	}
}

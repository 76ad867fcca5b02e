package dataplane

import (
	"fmt"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
)

// step is one HNS request for an endpoint. For Add, acls are what is added; for
// Update they are the complete list of ours, the others' policies come from the
// read right before.
type step struct {
	verb hns.Verb
	acls []hns.ACL
}

// String renders the step as the plan shows it.
func (s step) String() string {
	var b strings.Builder
	for _, a := range s.acls {
		fmt.Fprintf(&b, "  acl %s %s\n", strings.ToLower(string(s.verb)), RuleText(a))
	}
	if len(s.acls) == 0 {
		fmt.Fprintf(&b, "  acl %s to none of ours\n", strings.ToLower(string(s.verb)))
	}
	return b.String()
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

// change is what planSteps has to bridge for one endpoint.
type change struct {
	applied []hns.ACL // ours, known to be there
	shared  []hns.ACL // desired, no policy's own
	groups  []share   // desired, by policy
	unused  []hns.ACL // need not be there, but may stay
	fresh   bool      // never written for the pod that owns it now
	batch   int       // ACLs per Add
}

// want returns all that is desired.
func (c change) want() (all []hns.ACL) {
	all = append(all, c.shared...)
	for _, g := range c.groups {
		all = append(all, g.acls...)
	}
	return all
}

// share is what one policy wants on an endpoint.
type share struct {
	key      policy.Key
	isolates [2]bool
	acls     []hns.ACL
}

// planSteps returns the requests that turn applied into what is desired; none
// when they mean the same.
//
// Only pure additions are batched, up to maxAdds batches: each one reads the endpoint
// twice, so with more of them the work would grow with the square of the rules. What
// takes more is one Update, as any other change; on an endpoint that lacks its block
// after the first batch, so that it is closed however long a large request takes. A
// batch takes policies whole, so that the
// state after each is one that some of the changes alone would give; a policy
// that is larger than a batch is split, which leaves the state between more
// closed. What makes an ACL harmless (allow-all pair, node rule) goes first. On
// an endpoint that was never written for its pod the block goes in the first
// batch, together with a policy for each direction that it closes, even if that
// makes the batch larger; otherwise in the last.
func planSteps(c change) []step {
	want := c.want()
	added, removed := diffACLs(c.applied, want)
	if len(removed) > 0 {
		if _, essential := diffACLs(c.applied, slices.Concat(want, c.unused)); len(essential) > 0 {
			return []step{{verb: hns.Update, acls: want}}
		}
	}
	if len(added) == 0 {
		return nil
	}
	steps := c.additions(added)
	if len(steps) <= maxAdds {
		return steps
	}
	whole := step{verb: hns.Update, acls: want}
	if c.fresh && lacksBlock(c.applied, c.shared) {
		return []step{steps[0], whole}
	}
	return []step{whole}
}

// maxAdds is how many batches of additions an endpoint is given.
const maxAdds = 4

// additions packs what is to be added into Add requests.
func (c change) additions(added []hns.ACL) []step {
	missing := countACLs(added)
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
	for _, a := range take(c.shared) {
		if a.Priority == hns.PriorityBlock {
			blocks = append(blocks, a)
			closes[a.Direction] = true
		} else {
			first = append(first, a)
		}
	}
	groups := make([]share, len(c.groups))
	for i, g := range c.groups {
		groups[i] = share{g.key, g.isolates, take(g.acls)}
	}
	b := batcher{size: max(c.batch, 1), open: first}
	if c.fresh {
		b.open = append(b.open, blocks...)
		blocks = nil
		groups = b.serve(groups, closes)
	}
	for _, g := range groups {
		b.add(g.acls)
	}
	b.last(blocks)
	return b.steps
}

// smallest returns the place of the smallest policy that isolates a direction,
// or -1.
func smallest(groups []share, d policy.Direction) int {
	best := -1
	for i, g := range groups {
		if g.isolates[d] && (best < 0 || len(g.acls) < len(groups[best].acls)) {
			best = i
		}
	}
	return best
}

// batcher fills Add requests of a size.
type batcher struct {
	size  int
	open  []hns.ACL
	steps []step
}

// serve puts, for each direction that blocks close, the smallest policy that isolates it
// into the open request, if it is no larger than one. It returns the other policies.
func (b *batcher) serve(groups []share, closes map[hns.Direction]bool) []share {
	for _, d := range policy.Directions {
		at := smallest(groups, d)
		if !closes[direction(d)] || at < 0 || len(groups[at].acls) > b.size {
			continue
		}
		b.open = append(b.open, groups[at].acls...)
		if groups[at].isolates[policy.Egress] {
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
		b.steps = append(b.steps, step{verb: hns.Add, acls: slices.Clone(b.open)})
		b.open = nil
	}
}

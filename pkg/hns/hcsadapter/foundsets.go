package hcsadapter

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
)

// disagreement is an address that no pod has. A set of addresses with it is one on which
// several networks do not agree. It has a meaning, as a value without one might be taken for
// HNS's own way to write another one.
const disagreement = "255.255.255.255"

// read reads the networks and merges them into one.
func (f *Found) read(ctx context.Context, on []*member) (hns.Network, error) {
	all := make([]hns.Network, len(on))
	for i, m := range on {
		began := f.event()
		n, err := m.Network(ctx)
		if err != nil {
			return hns.Network{}, err
		}
		all[i] = n
		f.list(m, began, n.Sets)
	}
	if len(all) == 1 {
		return all[0], nil
	}
	return joined(all), nil
}

// event counts a new event and returns its number.
func (f *Found) event() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events++
	return f.events
}

// list records the sets of a network, from a read that began at event began. A set that was written
// since then keeps the result of that write. If a later read was recorded already, list does nothing.
func (f *Found) list(m *member, began uint64, sets []hns.SetPolicy) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if began < m.listed {
		return
	}
	before := m.sets
	m.listed, m.sets = began, map[string]bool{}
	for _, s := range sets {
		m.sets[s.ID] = true
	}
	for id, at := range m.written {
		switch {
		case at < began:
			delete(m.written, id)
		case before[id]:
			m.sets[id] = true
		default:
			delete(m.sets, id)
		}
	}
}

// joined makes one network of several. A set is shown as it is where all have it alike, and
// otherwise with a value that nobody wants.
func joined(all []hns.Network) hns.Network {
	var out hns.Network
	var ids, names []string
	count := map[string]int{}
	first := map[string]hns.SetPolicy{}
	differ := map[string]bool{}
	var order []string
	for _, n := range all {
		ids, names = append(ids, n.ID), append(names, n.Name)
		for _, s := range n.Sets {
			if count[s.ID]++; count[s.ID] == 1 {
				first[s.ID] = s
				order = append(order, s.ID)
				continue
			}
			differ[s.ID] = differ[s.ID] || !alike(first[s.ID], s)
		}
	}
	out.ID, out.Name = strings.Join(ids, "+"), strings.Join(names, "+")
	for _, id := range order {
		s := first[id]
		if differ[id] || count[id] != len(all) {
			if s.Values = append(slices.Clone(s.Values), disagreement); s.Type == hns.NestedIPSet {
				s.Values = nil // which no nested set is to have
			}
		}
		out.Sets = append(out.Sets, s)
	}
	return out
}

// alike reports whether two networks have the same set, in whatever order.
func alike(a, b hns.SetPolicy) bool {
	return a.Name == b.Name && a.Type == b.Type && slices.Equal(slices.Sorted(slices.Values(a.Values)), slices.Sorted(slices.Values(b.Values)))
}

// ModifySets implements hns.Client. With several networks each one gets what brings it to
// where the request leads: an Add of what it has is an Update there, an Update of what it has
// not an Add, and a Remove of that is nothing. One that fails does not keep the others from
// theirs. When another one was written, the outcome is unknown, and the sets are read again.
func (f *Found) ModifySets(ctx context.Context, verb hns.Verb, sets []hns.SetPolicy) error {
	on, err := f.members(ctx)
	if err != nil {
		return unavailableOf(hns.OpSets(verb), hns.KindSet, "", err)
	}
	if len(on) == 1 || len(sets) == 0 {
		if err := on[0].ModifySets(ctx, verb, sets); err != nil {
			return err
		}
		f.wrote(on[0], setStep{verb, sets}) // a second network may appear before the next write, which then needs this
		return nil
	}
	wrote := false
	var failed *member
	for _, m := range on {
		for _, step := range f.steps(m, verb, sets) {
			if stepErr := m.ModifySets(ctx, step.verb, step.sets); stepErr != nil {
				err, failed = cmp.Or(err, stepErr), cmp.Or(failed, m)
				break
			}
			wrote = true
			f.wrote(m, step)
		}
	}
	if wrote && err != nil {
		return &hns.OpError{Op: hns.OpSets(verb), Kind: hns.KindSet, ID: "of " + failed.network, Code: codeOf(err), Err: unavailable(err)}
	}
	return err
}

// wrote records a successful request to a network. It ignores an Update, which neither creates nor
// removes a set.
func (f *Found) wrote(m *member, step setStep) {
	if step.verb == hns.Update {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events++
	if m.sets == nil {
		m.sets = map[string]bool{}
	}
	if m.written == nil {
		m.written = map[string]uint64{}
	}
	for _, s := range step.sets {
		m.written[s.ID] = f.events
		if m.sets[s.ID] = true; step.verb == hns.Remove {
			delete(m.sets, s.ID)
		}
	}
}

// setStep is one request to one network.
type setStep struct {
	verb hns.Verb
	sets []hns.SetPolicy
}

// steps returns the requests that a request is in one network.
func (f *Found) steps(m *member, verb hns.Verb, sets []hns.SetPolicy) []setStep {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m.sets == nil {
		m.sets = map[string]bool{}
	}
	var has, lacks []hns.SetPolicy
	for _, s := range sets {
		if m.sets[s.ID] {
			has = append(has, s)
		} else {
			lacks = append(lacks, s)
		}
	}
	var out []setStep
	if verb == hns.Remove {
		lacks = nil
	} else {
		verb = hns.Update
	}
	if len(has) > 0 {
		out = append(out, setStep{verb, has})
	}
	if len(lacks) > 0 {
		out = append(out, setStep{hns.Add, lacks})
	}
	return out
}

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

// read reads networks and makes one of them.
func (f *Found) read(ctx context.Context, on []*member) (hns.Network, error) {
	all := make([]hns.Network, len(on))
	for i, m := range on {
		n, err := m.Network(ctx)
		if err != nil {
			return hns.Network{}, err
		}
		all[i] = n
		f.mu.Lock()
		m.sets = map[string]bool{}
		for _, s := range n.Sets {
			m.sets[s.ID] = true
		}
		f.mu.Unlock()
	}
	if len(all) == 1 {
		return all[0], nil
	}
	return joined(all), nil
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
		return on[0].ModifySets(ctx, verb, sets)
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

// wrote takes that a network took a request.
func (f *Found) wrote(m *member, step setStep) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range step.sets {
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

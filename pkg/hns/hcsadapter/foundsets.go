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
	f.sets.Lock()
	defer f.sets.Unlock()
	all := make([]hns.Network, len(on))
	for i, m := range on {
		n, err := m.Network(ctx)
		if err != nil {
			return hns.Network{}, err
		}
		all[i], m.sets = n, map[string]bool{}
		for _, s := range n.Sets {
			m.sets[s.ID] = true
		}
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
	at := map[string]int{} // in out.Sets
	var agree []int        // how many networks have the set as out.Sets shows it
	for _, n := range all {
		ids, names = append(ids, n.ID), append(names, n.Name)
		for _, s := range n.Sets {
			i, there := at[s.ID]
			if !there {
				i, at[s.ID] = len(agree), len(agree)
				out.Sets, agree = append(out.Sets, s), append(agree, 0)
			}
			if alike(out.Sets[i], s) {
				agree[i]++
			}
		}
	}
	out.ID, out.Name = strings.Join(ids, "+"), strings.Join(names, "+")
	for i := range out.Sets {
		s := &out.Sets[i]
		switch {
		case agree[i] == len(all):
		case s.Type == hns.NestedIPSet:
			s.Values = nil // which no nested set is to have
		default:
			s.Values = append(slices.Clone(s.Values), disagreement)
		}
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
	f.sets.Lock()
	defer f.sets.Unlock()
	if len(on) == 1 || len(sets) == 0 {
		return on[0].modifySets(ctx, setStep{verb, sets}) // a second network may appear before the next write
	}
	wrote := false
	var failed *member
	for _, m := range on {
		for _, step := range m.steps(verb, sets) {
			if stepErr := m.modifySets(ctx, step); stepErr != nil {
				err, failed = cmp.Or(err, stepErr), cmp.Or(failed, m)
				break
			}
			wrote = true
		}
	}
	if wrote && err != nil {
		return &hns.OpError{Op: hns.OpSets(verb), Kind: hns.KindSet, ID: "of " + failed.network, Code: codeOf(err), Err: unavailable(err)}
	}
	return err
}

// setStep is one request to one network.
type setStep struct {
	verb hns.Verb
	sets []hns.SetPolicy
}

// modifySets sends one request and records what the network has then.
func (m *member) modifySets(ctx context.Context, step setStep) error {
	if err := m.ModifySets(ctx, step.verb, step.sets); err != nil {
		return err
	}
	if m.sets == nil {
		m.sets = map[string]bool{}
	}
	for _, s := range step.sets {
		switch step.verb {
		case hns.Add:
			m.sets[s.ID] = true
		case hns.Remove:
			delete(m.sets, s.ID)
		case hns.Update: // makes and removes none
		}
	}
	return nil
}

// steps returns the requests that a request is in one network.
func (m *member) steps(verb hns.Verb, sets []hns.SetPolicy) (out []setStep) {
	var has, lacks []hns.SetPolicy
	for _, s := range sets {
		if m.sets[s.ID] {
			has = append(has, s)
		} else {
			lacks = append(lacks, s)
		}
	}
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

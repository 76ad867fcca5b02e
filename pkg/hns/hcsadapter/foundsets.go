package hcsadapter

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
)

// disagreement is an address that no pod has. It is added to a set of addresses on which the
// networks disagree. It must be a valid address: the dataplane could take an invalid value for
// another spelling of a valid one.
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
	return merge(all), nil
}

// merge merges networks. A set that is the same in all of them is shown as it is, any other set
// with a value that is never desired.
func merge(all []hns.Network) hns.Network {
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
			s.Values = nil // every desired nested set has a member
		default:
			s.Values = append(slices.Clone(s.Values), disagreement)
		}
	}
	return out
}

// alike reports whether two sets are the same, except for the order of their values.
func alike(a, b hns.SetPolicy) bool {
	return a.Name == b.Name && a.Type == b.Type && slices.Equal(slices.Sorted(slices.Values(a.Values)), slices.Sorted(slices.Values(b.Values)))
}

// ModifySets implements hns.Client. With several networks, the request is adapted to each: an Add
// of an existing set becomes an Update, an Update of a missing set becomes an Add, and a Remove of
// a missing set is omitted. If one network fails, the others are still written. If only some of the
// writes succeed, the outcome is unknown, and the caller reads the sets again.
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

// modifySets sends one request and records which sets the network has afterwards.
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
		case hns.Update: // adds and removes no set
		}
	}
	return nil
}

// steps returns the requests for one network that have the effect of a request for all.
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

package ipsets

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// hnsSet is a set as the strict HNS of the tests keeps it.
type hnsSet struct {
	name   string
	nested bool
	values []string
}

// strictHNS rejects what HNS rejects, and more: missing members, members in
// use, duplicates, updates of what is missing, nested sets without filler.
type strictHNS struct {
	sets map[string]hnsSet
	used map[string]bool                       // ids that an ACL names
	bad  func(id string, values []string) bool // content that it calls invalid
}

var (
	errOrder   = errors.New("a request out of order") // never allowed
	errInvalid = errors.New("invalid content")        // part of some tests
)

func newStrictHNS() *strictHNS {
	return &strictHNS{sets: map[string]hnsSet{}, used: map[string]bool{}, bad: func(string, []string) bool { return false }}
}

func (h *strictHNS) clone() *strictHNS {
	return &strictHNS{sets: maps.Clone(h.sets), used: maps.Clone(h.used), bad: h.bad}
}

// do executes a request, all or nothing.
func (h *strictHNS) do(r Write) error {
	after := maps.Clone(h.sets)
	for _, s := range r.Sets {
		if s.ID != s.Name.ID() || s.Text != s.Name.String() || s.Name.Nested() != r.Nested {
			return fmt.Errorf("%w: %s is not what it says", errOrder, s.Text)
		}
		old, there := after[s.ID]
		if there != (r.Verb != Add) {
			return fmt.Errorf("%w: %s %s, there: %v", errOrder, r.Verb, s.Text, there)
		}
		if there && old.nested != r.Nested && r.Verb == Remove {
			return fmt.Errorf("%w: %s %s as the wrong type", errOrder, r.Verb, s.Text)
		}
		if r.Verb == Remove {
			delete(after, s.ID)
			continue
		}
		if h.bad(s.ID, s.Values) {
			return fmt.Errorf("%w: %s", errInvalid, s.Text)
		}
		after[s.ID] = hnsSet{s.Text, r.Nested, slices.Clone(s.Values)}
	}
	if r.Verb == Remove {
		for _, s := range r.Sets {
			if h.used[s.ID] {
				return fmt.Errorf("%w: an ACL names %s", errOrder, s.Text)
			}
		}
	}
	if err := whole(after); err != nil {
		return err
	}
	h.sets = after
	return nil
}

// whole checks that nested sets have their members and the filler.
func whole(sets map[string]hnsSet) error {
	for _, s := range sets {
		if !s.nested {
			continue
		}
		for _, v := range s.values {
			if m, ok := sets[v]; !ok || m.nested {
				return fmt.Errorf("%w: %s lacks its member %s", errOrder, s.name, v)
			}
		}
		if !slices.Contains(s.values, Empty().ID()) {
			return fmt.Errorf("%w: %s lacks the permanent member", errOrder, s.name)
		}
	}
	return nil
}

// list is what Observe wants.
func (h *strictHNS) list() []Observed {
	var out []Observed
	for _, id := range slices.Sorted(maps.Keys(h.sets)) {
		s := h.sets[id]
		out = append(out, Observed{ID: id, Name: s.name, Nested: s.nested, Values: slices.Clone(s.values)})
	}
	return out
}

// text lists what is there, readable, without the filler.
func (h *strictHNS) text() []string {
	var out []string
	for _, s := range h.sets {
		line := s.name
		for _, v := range slices.Sorted(slices.Values(h.readable(s))) {
			line += " " + v
		}
		if s.name != Empty().String() {
			out = append(out, line)
		}
	}
	slices.Sort(out)
	return out
}

func (h *strictHNS) readable(s hnsSet) []string {
	if !s.nested {
		return s.values
	}
	var out []string
	for _, v := range s.values {
		if v != Empty().ID() {
			out = append(out, h.sets[v].name)
		}
	}
	return out
}

// run executes a plan and records it; it stops at the first refusal.
func (h *strictHNS) run(c *Cache, plan []Write) error {
	for _, r := range plan {
		if err := h.do(r); err != nil {
			return err
		}
		done(c, r)
	}
	return nil
}

// done records a request that succeeded.
func done(c *Cache, r Write) {
	for _, s := range r.Sets {
		if r.Verb == Remove {
			c.Removed(s.Name)
		} else {
			c.Wrote(s)
		}
	}
}

package endpoints

import (
	"hash/maphash"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/hns"
)

// lists makes the canonical lists of one dump. Equal lists are one slice, which nobody changes:
// pods of one workload have the same rules, and there may be thousands of them.
type lists struct {
	seed  maphash.Seed
	known map[uint64][]hns.ACL
}

func newLists() *lists { return &lists{maphash.MakeSeed(), map[uint64][]hns.ACL{}} }

// canonical returns a copy of a list in canonical form, or the one that is there already.
func (l *lists) canonical(acls []hns.ACL) []hns.ACL {
	out := acl.Canonical(acls)
	key := uint64(len(out))
	for _, a := range out {
		key = 31*key + maphash.Comparable(l.seed, a)
	}
	if known, is := l.known[key]; is && slices.Equal(known, out) {
		return known
	}
	l.known[key] = out
	return out
}

// foreignRules decodes the ACLs of others. What a CNI gives to one endpoint it gives to most:
// these share one list.
type foreignRules struct {
	texts map[string]*hns.ACL // canonical, by their text; nil for what is none
	from  []hns.EndpointPolicy
	last  []hns.ACL // those of from
}

// of returns the ACLs among policies.
func (f *foreignRules) of(policies []hns.EndpointPolicy) []hns.ACL {
	if slices.EqualFunc(policies, f.from, hns.EndpointPolicy.Equal) {
		return f.last
	}
	f.from, f.last = policies, nil
	for _, p := range policies {
		if a := f.decode(p); a != nil {
			f.last = append(f.last, *a)
		}
	}
	f.last = slices.Clip(f.last)
	return f.last
}

// decode returns an ACL; nil: it is none.
func (f *foreignRules) decode(p hns.EndpointPolicy) *hns.ACL {
	if !strings.EqualFold(p.Type, hns.PolicyTypeACL) {
		return nil
	}
	known, is := f.texts[string(p.Settings)]
	if !is {
		if a, err := p.ACL(); err == nil {
			a = a.Canonical()
			known = &a
		}
		f.texts[string(p.Settings)] = known
	}
	return known
}

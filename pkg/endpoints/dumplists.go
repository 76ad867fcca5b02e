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

// foreignRules returns the ACLs among the policies of others, canonical.
func foreignRules(policies []hns.EndpointPolicy) (out []hns.ACL) {
	for _, p := range policies {
		if !strings.EqualFold(p.Type, hns.PolicyTypeACL) {
			continue
		}
		if a, err := p.ACL(); err == nil {
			out = append(out, a.Canonical())
		}
	}
	return out
}

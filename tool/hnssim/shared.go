package hnssim

import (
	"slices"

	"github.com/winnpm/winnpm/pkg/hns"
)

// policyText is the text of a policy.
type policyText struct{ policyType, settings string }

// maxShared limits the policies of Sim.shared. A full cache is cleared.
const maxShared = 1 << 14

// readPolicy checks a policy for an endpoint; s.mu must be held. Parsed policies are immutable, so
// endpoints with equal policies share them, like the policies of a CNI or the rules of a workload's
// pods. An endpoint of another network has none of the sets, and shares nothing.
func (s *Sim) readPolicy(e *endpoint, p hns.EndpointPolicy) (policy, *refused) {
	shares := e.Network == s.network
	found, known := s.shared[policyText{p.Type, string(p.Settings)}] // does not copy the text
	if known && shares {
		return found, nil
	}
	read, r := readPolicy(hns.EndpointPolicy{Type: p.Type, Settings: slices.Clone(p.Settings)}, s.lookup(e))
	if r == nil && shares {
		if len(s.shared) >= maxShared {
			clear(s.shared)
		}
		s.shared[policyText{p.Type, string(p.Settings)}] = read
	}
	return read, r
}

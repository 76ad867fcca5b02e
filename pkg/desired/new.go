package desired

import (
	"net/netip"

	"k8s.io/apimachinery/pkg/types"

	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
)

// New returns a State of an empty cluster. It defines sets in the cache, and holds
// them for policies. It calls note for each object that it works on.
func New(cfg Settings, cache *ipsets.Cache, note func(work, kind, namespace, name string)) *State {
	d := &State{
		cfg:       cfg,
		note:      note,
		cache:     cache,
		owners:    ipsets.NewOwners[*PodState](),
		members:   newMembers(cache),
		policies:  map[policy.Key]*policyState{},
		byNS:      map[string]map[policy.Key]*policyState{},
		problems:  map[policy.Key]bool{},
		switched:  map[*policyState]struct{}{},
		local:     map[types.UID]*PodState{},
		contested: map[netip.Addr]bool{},
		elsewhere: map[netip.Addr]bool{},
		lost:      map[netip.Addr]PodKey{},
		misplaced: map[PodKey]bool{},
	}
	d.namedPorts = d.members.ports
	d.namedPorts.changed, d.namedPorts.fewer = d.renderSelected, d.renderTiered
	return d
}

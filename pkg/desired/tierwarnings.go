package desired

import (
	"fmt"

	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/render"
	"github.com/winnpm/winnpm/pkg/state"
)

// TierWarnings returns a warning for each ClusterNetworkPolicy of which some pod of this
// node has less than it asks for, as there is no room: in lists are those of the node.
func (d *State) TierWarnings(lists []*render.TierList) (out []state.Warning) {
	if len(lists) == 0 {
		return nil
	}
	denied, silent := map[policy.Key]bool{}, map[policy.Key]bool{}
	for _, l := range lists {
		for _, key := range l.Denied {
			denied[key] = true
		}
		for _, key := range l.Silent {
			silent[key] = true
		}
	}
	warn := func(key policy.Key, what string) {
		object, kind := ObjectOf(key)
		out = append(out, state.Warning{Object: object, Kind: kind, Reason: state.ReasonOverBudget, Message: fmt.Sprintf(
			"with the other policies of a pod that it selects it comes to more than %d ACLs (MaxACLsPerPod) or %d bytes (MaxACLBytesPerPod): "+
				"%s there. Make fewer rules, or order them so that less is passed", d.cfg.Budgets.ACLs, d.cfg.Budgets.ACLBytes, what)})
	}
	for key := range silent {
		warn(key, "it accepts nothing, and denies what it passes,")
	}
	for key := range denied {
		if !silent[key] {
			warn(key, "it denies what it passes, where a later rule of its tier might decide otherwise,")
		}
	}
	return out
}

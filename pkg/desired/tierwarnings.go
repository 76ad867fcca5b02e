package desired

import (
	"fmt"

	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/render"
	"github.com/winnpm/winnpm/pkg/state"
)

// TierWarnings returns a warning for each ClusterNetworkPolicy of which some pod of this
// node has less than it asks for, because the pod has too many ACLs. lists are those of the node.
func (d *State) TierWarnings(lists []*render.TierList) (out []state.Warning) {
	silent := map[policy.Key]bool{}
	for _, l := range lists {
		for _, key := range l.Silent {
			silent[key] = true
		}
	}
	for key := range silent {
		object, kind := ObjectOf(key)
		out = append(out, state.Warning{Object: object, Kind: kind, Reason: state.ReasonOverBudget, Message: fmt.Sprintf(
			"with the other policies of a pod that it selects it comes to more than %d ACLs (MaxACLsPerPod), where a long ACL counts as several: "+
				"only its Deny rules are in force there. Make fewer rules, or order them so that less is passed", d.cfg.Budgets.ACLs)})
	}
	return out
}

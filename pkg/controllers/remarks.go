package controllers

import (
	"fmt"

	"github.com/winnpm/winnpm/pkg/dataplane"
)

// maxRemarks bounds the remarks: whoever reports pods can make one for each pod of the
// node.
const maxRemarks = 8

// Remarks returns what whoever asks whether the agent is ready should know besides:
// the addresses of pods of the node that others claim too, of the last transaction. They
// are no reason not to be ready, as what is in doubt is closed, and whoever may report a
// pod could otherwise stop the rollout of the agent. It never waits.
func (c *Controller) Remarks() []string {
	c.status.mu.Lock()
	defer c.status.mu.Unlock()
	return c.status.remarks
}

// remarksOf words warnings for Remarks.
func remarksOf(warnings []dataplane.Warning) []string {
	var out []string
	more := 0
	for _, w := range warnings {
		switch {
		case w.Reason != dataplane.ReasonAddressContested:
		case len(out) == maxRemarks:
			more++
		default:
			out = append(out, fmt.Sprintf("%s %s: %s", w.Kind, w.Object, w.Message))
		}
	}
	if more > 0 {
		out = append(out, fmt.Sprintf("and %d more: see the warnings of the dump", more))
	}
	return out
}

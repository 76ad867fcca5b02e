package controllers

import (
	"fmt"
	"slices"

	"github.com/winnpm/winnpm/pkg/state"
)

// maxNotes bounds the notes: whoever reports pods can make one for each pod of the
// node.
const maxNotes = 8

// Notes returns what an operator should know although the agent is ready: the policies of
// older versions, of which nothing is programmed, and the contested addresses of pods of the
// node, as of the last transaction. These do not make the agent
// unready, as a contested address is closed. Otherwise whoever may report a pod could stop
// the rollout of the agent. Notes never waits.
func (c *Controller) Notes() []string {
	c.status.mu.Lock()
	defer c.status.mu.Unlock()
	return slices.Concat(c.status.notes, c.status.older)
}

// notesOf returns the notes that warnings give.
func notesOf(warnings []state.Warning) []string {
	var out []string
	more := 0
	for _, w := range warnings {
		switch {
		case w.Reason != state.ReasonAddressContested:
		case len(out) == maxNotes:
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

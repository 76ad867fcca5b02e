package desired

import (
	"fmt"

	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// wordProblems words what could not be expressed of an object: one warning for each
// reason, with the first example, as there may be thousands. found counts them.
func wordProblems(object, kind string, problems []policy.Problem, found map[policy.Reason]int) []state.Warning {
	var out []state.Warning
	told := map[policy.Reason]bool{}
	for _, p := range problems {
		if told[p.Reason] {
			continue
		}
		told[p.Reason] = true
		text := p.Field + ": " + p.Message
		if n := found[p.Reason]; n > 1 {
			text += fmt.Sprintf(" (the first of %d in this policy)", n)
		}
		out = append(out, state.Warning{Object: object, Kind: kind, Reason: state.Reason(p.Reason), Message: text})
	}
	return out
}

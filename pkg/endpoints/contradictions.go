package endpoints

import "fmt"

// Contradictions returns the endpoints whose state does not fit the rest that is known of
// them, as it has to between two transactions. One that is pending may turn out right.
func (d *State) Contradictions() (all []string) {
	for id, ep := range d.byID {
		known, settled := ep.state.rules == rulesKnown, ep.state.update == updateSettled
		fits := ep.state.rules != rulesUnread && known == (ep.Version != "") && known == (len(ep.attempts) == 0) && settled == (ep.turn == 0)
		switch {
		case !known:
			fits = fits && len(ep.Actual) == 0 && settled == (ep.owner == "")
		case settled:
			fits = fits && !ep.exposed && (ep.owner == "" || len(d.steps(ep)) == 0)
		default:
			fits = fits && ep.owner != ""
		}
		if !fits {
			all = append(all, fmt.Sprintf("%s is %s: version %q, turn %d, owner %q, exposed %t, %d lists", id, ep.state, ep.Version, ep.turn, ep.owner, ep.exposed, len(ep.attempts)))
		}
	}
	return all
}

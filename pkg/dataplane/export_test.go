package dataplane

import (
	"fmt"
	"time"

	"github.com/winnpm/winnpm/pkg/state"
)

// Stage folds a transaction in, and returns how long that took.
func (d *Dataplane) Stage(tx *Transaction) (took time.Duration) {
	d.with(func(c *core) {
		began := time.Now()
		c.stage(tx)
		took = time.Since(began)
	})
	return took
}

// Spellings returns what was learned of how HNS shows what was sent.
func (d *Dataplane) Spellings() (list []state.Spelling) {
	d.with(func(c *core) { list = c.spellings.All() })
	return list
}

// Contradictions returns the endpoints whose state does not fit the rest that is known of
// them, as it has to between two transactions. One that is pending may turn out right.
func (d *Dataplane) Contradictions() (all []string) {
	d.with(func(c *core) {
		for id, ep := range c.endpoints {
			known, settled := ep.state.rules == rulesKnown, ep.state.update == updateSettled
			fits := ep.state.rules != rulesUnread && known == (ep.version != "") && known == (len(ep.attempts) == 0) && settled == (ep.turn == 0)
			switch {
			case !known:
				fits = fits && len(ep.actual) == 0 && settled == (ep.owner == "")
			case settled:
				fits = fits && !ep.exposed && (ep.owner == "" || len(c.steps(ep)) == 0)
			default:
				fits = fits && ep.owner != ""
			}
			if !fits {
				all = append(all, fmt.Sprintf("%s is %s: version %q, turn %d, owner %q, exposed %t, %d lists", id, ep.state, ep.version, ep.turn, ep.owner, ep.exposed, len(ep.attempts)))
			}
		}
	})
	return all
}

package torture

import (
	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/test/hnsfault"
)

// look begins a round of the reconciler: it reads HNS now, between any two calls
// of a transaction too, and tells later. What was written since must not be taken
// for somebody else's doing (I2).
func (r *replay) look(hnsfault.Call) {
	r.looking = true
	defer func() { r.looking = false }()
	obs, err := r.dp.Observe(r.t.Context(), dataplane.Everything())
	if err != nil {
		r.fail("observe: %v", err)
	}
	r.looked = obs
	r.note("observed")
}

// tell ends the round.
func (r *replay) tell() {
	if r.looked == nil {
		return // or the process that looked is gone
	}
	r.note("told late")
	tx := dataplane.NewTransaction()
	tx.SetObservation(r.looked)
	r.looked = nil
	r.apply(tx)
}

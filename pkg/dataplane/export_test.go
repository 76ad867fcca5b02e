package dataplane

import (
	"context"
	"time"

	"github.com/winnpm/winnpm/pkg/state"
)

// Stage folds a transaction in, and returns how long that took.
func (d *Dataplane) Stage(tx *Transaction) time.Duration {
	r := d.begin(context.Background(), tx)
	defer d.unlock()
	began := time.Now()
	r.stage()
	return time.Since(began)
}

// Spellings returns what was learned of how HNS shows what was sent.
func (d *Dataplane) Spellings() (list []state.SpellingSeen) {
	d.with(func(n *nodeState) { list = n.endpoints.Spellings.All() })
	return list
}

package dataplane

import (
	"context"
	"time"

	"github.com/winnpm/winnpm/pkg/hns"
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

// SetAsk has ask answer the requests of transactions in place of HNS.
func (d *Dataplane) SetAsk(ask func(hns.Request) hns.Result) {
	d.call = func(_ context.Context, req hns.Request, _ bool) hns.Result { return ask(req) }
}

package debug

import (
	"bufio"
	"net/http"

	"github.com/winnpm/winnpm/pkg/recorder"
)

// TransactionsPath answers with the last steps of the dataplane, those that are
// running included: {"steps": [...]}, without what was sent and read.
const TransactionsPath = "/npm/v1/debug/transactions"

// transactions returns the last steps, nil when there is no recorder.
func (cfg Config) transactions() []recorder.Step {
	if cfg.Transactions == nil {
		return nil
	}
	return cfg.Transactions()
}

func (cfg Config) serveTransactions(out http.ResponseWriter, _ *http.Request) {
	out.Header().Set("Content-Type", "application/json")
	w := &writer{out: bufio.NewWriter(out)}
	w.text("{")
	firstList(w, "steps", cfg.transactions())
	w.text("}\n")
	_ = w.flush() // a client that has gone is no concern
}

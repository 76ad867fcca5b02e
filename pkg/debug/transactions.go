package debug

import "net/http"

// TransactionsPath answers with the recording of the last transactions and observations, including
// the running one: a line of JSON with the recorder.Header, then one for each recorder.Step.
const TransactionsPath = "/npm/v1/debug/transactions"

func (cfg Config) serveTransactions(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/x-ndjson")
	if cfg.Recording(attended{r.Context(), w}) != nil {
		panic(http.ErrAbortHandler) // half a recording must not look like a whole one
	}
}

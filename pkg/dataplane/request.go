package dataplane

import (
	"time"

	"github.com/winnpm/winnpm/pkg/hns"
)

// Request is what the core wants asked of HNS next. One without an Op asks HNS for
// nothing: it lets others look at the state before the transaction goes on.
type Request struct {
	hns.Request
	// Turns asks, in a request without an Op, whether the next transaction is due, after
	// so many endpoints that were read or updated on their own.
	Turns int
	// Shared: this request and those that follow it for the same endpoint share a handle
	// of HNS.
	Shared bool
}

// Result is what came of a Request.
type Result struct {
	hns.Result
	Took  time.Duration // of HNS
	Yield bool          // of a request with Turns: the next transaction is due
}

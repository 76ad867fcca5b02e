package dataplane

import "github.com/winnpm/winnpm/pkg/desired"

// Transaction is what changed of the objects of the cluster. It is
// built by one goroutine and not used any more once it was applied.
type Transaction struct {
	desired.Objects
	yield func(turns int) bool
}

// NewTransaction returns an empty transaction. Applying an empty one retries
// what is due.
func NewTransaction() *Transaction { return &Transaction{Objects: desired.NewObjects()} }

// SetYield says when the next transaction is due. It is asked after each endpoint
// that is read or updated on its own, with how many these are so far, as long as
// others wait; once it says yes they are left to the next transaction, but for one
// update, as every transaction gets on. nil means never.
func (tx *Transaction) SetYield(due func(turns int) bool) { tx.yield = due }

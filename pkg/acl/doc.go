// Package acl has the rules of one endpoint as values: those that belong to no policy,
// what two lists differ in, and the requests that lead from one to the other without a
// gap. It knows no sets, no state and no time.
package acl

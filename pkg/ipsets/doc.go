// Package ipsets keeps the ip sets of a node: which exist, what is in them,
// who holds them, and what of that has been programmed.
//
// A leaf holds addresses; a nested set holds leaves, one level deep. Desired
// content is what callers ask for; applied content is what they report as
// programmed; a plan is the ordered difference. A set is held by references
// with an identity, so that holding twice is holding once and the dump can say
// by whom.
//
// The package is pure: no I/O, no clock, no goroutine. A Cache is not safe for
// concurrent use; its owner locks.
package ipsets

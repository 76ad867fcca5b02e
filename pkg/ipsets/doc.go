// Package ipsets keeps the ip sets of a node: which exist, what is in them,
// who holds them, and what of that has been programmed.
//
// A leaf holds addresses; a nested set holds leaves, one level deep. Desired
// content is what callers ask for; applied content is what they report as
// programmed; a plan is the ordered difference. A set is held by references
// with an identity, so that holding twice is holding once and the dump can say
// by whom.
//
// A set is defined while a policy or a wanted rule, or a defined nested set,
// asks for it; from then on any reference keeps it defined, and its caller
// feeds it. A leaf stays defined, too, while a needed nested set that is to lose
// it contains it in HNS. A set is needed while a rule, wanted or applied, a pin
// or a needed nested set wants it in HNS; only needed sets are written. What is
// in HNS but not defined is an orphan: references keep it there as it is, and
// without them it is deleted. The caller is told of an
// orphan of a known name that is needed, and may define it.
//
// The package is pure: no I/O, no clock, no goroutine. A Cache is not safe for
// concurrent use; its owner locks.
package ipsets

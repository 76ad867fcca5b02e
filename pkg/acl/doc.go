// Package acl turns the rules of policies into the ACLs of one endpoint: Resolve gives a rule
// the numbers of its named ports, NewGroup renders a NetworkPolicy, List makes one ordered list
// of the rules of several tiers (ADR 24), and Plan finds the requests that lead from the ACLs
// of an endpoint to others without a gap. Everything here is a value: it knows no cluster
// state, no answer of HNS and no time.
package acl

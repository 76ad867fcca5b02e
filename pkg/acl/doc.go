// Package acl turns the rules of policies into the ACLs of one endpoint. A Rule has numbers for its
// named ports (Resolve), an ACL what HNS is given, and what it came from. Render turns the ordered
// rules of an endpoint into its ACLs (ADR 24), a List is what an endpoint should have, and Plan finds
// the requests that lead from the ACLs of an endpoint to others without a gap. Everything here is a
// value: it knows no cluster state, no answer of HNS and no time.
package acl

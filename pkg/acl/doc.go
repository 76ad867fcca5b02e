// Package acl turns the rules of policies into the ACLs of one endpoint. A Rule has numbers for its
// named ports (Resolve). An ACL has the fields that HNS gets, and its sources. Render turns the ordered
// rules of an endpoint into its ACLs (ADR 24), a List has the desired ACLs of an endpoint, and Plan finds
// the requests that lead from the ACLs of an endpoint to others without a gap. Everything here is a
// value: it knows no cluster state, no answer of HNS and no time.
package acl

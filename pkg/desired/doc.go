// Package desired knows what should be on a node: the pods, namespaces, nodes and policies
// of the cluster, who is in which set, and which rules an endpoint with some address has.
//
//	Objects ── Stage ──► State ── TakeEffects ──► which endpoints it concerns
//	                       │
//	                       ├── Home, ListOf: an endpoint's pods, and its rules (package acl)
//	                       └── the desired members of sets (package ipsets)
//
// It makes no call and reads no clock. Of HNS it learns only which sets its rules name. What
// follows for endpoints it says as values, and whoever writes to HNS asks for them.
package desired

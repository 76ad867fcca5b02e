// Package desired has the desired state of a node: the pods, namespaces, nodes and policies of the
// cluster, the members of each set, and the rules of an endpoint with a given address.
//
//	Objects ── Stage ──► State ── TakeEffects ──► the addresses whose endpoints it affects
//	                       │
//	                       ├── Home, ListOf: an endpoint's pods, and its rules (package acl)
//	                       └── the desired members of sets (package ipsets)
//
// It makes no call and reads no clock. Of the state of HNS it uses only the sets that rules there
// name and no policy mentions (DefineOrphans). The effects of a change on endpoints are values,
// which package dataplane takes and applies.
package desired

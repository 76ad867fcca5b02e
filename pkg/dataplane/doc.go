// Package dataplane is the one writer of a node's HNS state.
//
// A caller that learns of a change puts it into a Transaction and hands it to
// ApplyDataplane, the only way to write. Its steps are functions of these names: stage
// (fold the change into the caches), read (what is not known), planSets (what differs),
// writeSets (create and update), writeEndpoints (one after the other), removeSets, and
// record (what was reached). The reconciler reads through Observe, a transaction that
// only reads.
//
// There are two locks. apply is held for a whole ApplyDataplane, and makes it the only
// writer. mu, taken after it, guards the state. A transaction holds mu too, but for the
// calls of HNS: ask releases it, makes the call, and takes it again. So dumps never wait
// for HNS:
//
//	apply       ████████████████████████████████████████████████████████████████
//	mu          ████   ████                 █████     ████████
//	                ask ─ call of HNS ─ ask     ask ...       report
package dataplane

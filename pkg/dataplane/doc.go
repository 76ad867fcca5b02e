// Package dataplane is the one writer of a node's HNS state.
//
// Whoever learns of a change puts it into a Transaction and hands it to
// ApplyDataplane, the only way in: stage (fold the change into the caches), read (what
// is not known), plan (what differs), phase 1 (create and update sets), endpoints (one
// after the other), phase 2 (delete sets), record (what was reached). The reconciler
// reads beside transactions and repairs through one.
//
// The core holds the state and is the whole transaction, and it calls nobody: Next says
// what to ask of HNS, Done takes the answer. Dataplane is the shell around it. It makes
// the calls, one after the other:
//
//	Dataplane    Begin  Next ─ call of HNS ─ Done  Next ─ call of HNS ─ Done ... report
//	 mu          ████   ████                 █     ████                 █
//	 apply       ████████████████████████████████████████████████████████████████████
//
// Two locks. apply is held for a whole ApplyDataplane, and makes it the only writer;
// mu, taken after it, guards the core and is
// never held across a call of HNS, so that dumps never wait for HNS. A stretch under mu ends
// at a request, or at a pause of the transaction. A crash is a core that is dropped between Next and Done.
package dataplane

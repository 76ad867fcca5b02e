// Package dataplane is the one writer of a node's HNS state.
//
// Whoever learns of a change puts it into a Transaction and hands it to
// ApplyDataplane, the only door: stage (fold the change into the caches, no
// I/O), plan (what differs, no I/O), phase 1 (create and update sets), pod
// updates (one endpoint after the other), phase 2 (delete sets), record (what
// was reached). The reconciler reads outside the door and repairs through it.
//
// Two locks, taken in this order: door is held for a whole ApplyDataplane,
// HNS calls included, and makes it the only writer; mu guards the state and is
// never held across an HNS call, so that dumps never wait for HNS.
//
//	door ── stage ─ plan ─ phase 1 ─ pod updates ─ phase 2 ─ record
//	 mu     ████    ████   ▪    ▪     ▪  ▪  ▪  ▪    ▪    ▪    ████
package dataplane

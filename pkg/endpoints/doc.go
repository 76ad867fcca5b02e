// Package endpoints knows the endpoints of a node: what HNS has of each, as far as reads and
// writes told, what each should have, and which of them wait for an update.
//
//	what should be (package desired) ── Follow, RenderDirty ──►┐
//	what HNS answers ── TakeList, TakeRead, Wrote ────────────►├ State ──► Due, NextSteps
//	what the reconciler reads ── TakeLook ────────────────────►┘
//
// It makes no call and reads no clock. Whoever writes to HNS asks it for the next steps, makes
// them, and tells what came of them. The states of an endpoint are in state.go (ADR 25), the
// queue is in queue.go (ADR 20).
package endpoints

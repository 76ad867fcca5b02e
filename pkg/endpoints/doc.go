// Package endpoints knows the endpoints of a node: the actual rules of each, as reads and writes
// showed them, its desired rules, and the queue of endpoints that wait for an update.
//
//	desired state (package desired) ─── Follow, RenderDirty ──►┐
//	answers of HNS ──── TakeList, TakeRead, Wrote ────────────►├ State ──► Due, NextSteps
//	looks (Observe) ─── TakeLook ─────────────────────────────►┘
//
// It makes no call and reads no clock. Package dataplane asks it for the next steps, sends them to
// HNS, and reports the outcome. The states of an endpoint are in state.go (ADR 25), the
// queue is in queue.go (ADR 20).
package endpoints

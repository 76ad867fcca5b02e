// Package dllcalls counts calls of the DLLs of HNS for whoever asks by a context.
// Package hns does not: a counter that calls share is no value.
package dllcalls

import (
	"context"
	"sync/atomic"
)

// Meter counts calls of the DLLs of HNS. It is safe for concurrent use.
type Meter struct{ calls atomic.Int64 }

// Calls returns the number so far.
func (m *Meter) Calls() int { return int(m.calls.Load()) }

type meterKey struct{}

// meters is a Meter and those of the contexts around.
type meters struct {
	*Meter
	outer *meters
}

// Metered returns a context whose calls of the DLLs m counts, beside every meter
// that ctx has already.
func Metered(ctx context.Context, m *Meter) context.Context {
	outer, _ := ctx.Value(meterKey{}).(*meters)
	return context.WithValue(ctx, meterKey{}, &meters{m, outer})
}

// Count adds n calls of the DLLs to the meters of a context. Only what makes such
// calls, or stands in for it, counts them.
func Count(ctx context.Context, n int) {
	m, _ := ctx.Value(meterKey{}).(*meters)
	for ; m != nil; m = m.outer {
		m.calls.Add(int64(n))
	}
}

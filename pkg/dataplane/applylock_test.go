package dataplane_test

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/hnsfault"
)

// TestScenario_A3_OneWriter: a second caller comes in the middle of an apply, at
// every HNS call of it. It asks HNS for nothing until the first is through, and
// both get what they wanted.
func TestScenario_A3_OneWriter(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	points := 0
	for ; ; points++ {
		w := newWorld(t)
		w.do("namespace x", "endpoint ep-1 10.0.0.1", "endpoint ep-2 10.0.0.2", "pod x/web 10.0.0.1 app=web", "apply",
			"pod x/other 10.0.0.2 app=db", cDeny)
		second := w.tx
		w.tx = dataplane.NewTransaction()
		w.do(cWeb, "node 10.1.0.4")

		var at, inside, overlaps atomic.Int32
		done := make(chan state.Report, 1)
		w.sim.OnCall(func(_ hnsfault.Call, when hnsfault.When) {
			if when == hnsfault.After {
				inside.Add(-1)
				return
			}
			if inside.Add(1) > 1 {
				overlaps.Add(1)
			}
			if int(at.Add(1)) != points+1 {
				return
			}
			go func() {
				var report state.Report
				defer func() { done <- report }()
				defer func() {
					if bug := recover(); bug != nil { // the simulator's, when two come in
						report.Errors = append(report.Errors, fmt.Sprint(bug))
					}
				}()
				var err error
				if report, err = w.dp.ApplyDataplane(ctx, second); err != nil {
					report.Errors = append(report.Errors, err.Error())
				}
			}()
			for ctx.Err() == nil && overlaps.Load() == 0 && len(done) == 0 && !waitsIn("ApplyDataplane") {
				runtime.Gosched()
			}
		})
		first, err := w.dp.ApplyDataplane(ctx, w.tx)
		require.NoError(t, err)
		if int(at.Load()) <= points {
			break
		}
		last := <-done
		require.Zero(t, overlaps.Load(), "HNS calls of both callers at once, at call %d", points)
		require.Empty(t, first.Errors, "the first caller, at call %d", points)
		require.Empty(t, last.Errors, "the second caller, at call %d", points)
		require.Empty(t, w.dp.Dump().Pending)
		w.sim.OnCall(nil)
		w.do("trace 10.0.1.1 -> 10.0.0.2 TCP/80 ep-2 in block", "trace 10.1.0.4 -> 10.0.0.1 TCP/80 ep-1 in allow")
	}
	require.NoError(t, ctx.Err(), "a second caller neither waited nor asked HNS for anything")
	require.Greater(t, points, 1)
}

// waitsIn reports whether some goroutine stands in a method of the dataplane and waits
// for the apply lock.
func waitsIn(method string) bool {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	for stack := range bytes.SplitSeq(buf, []byte("\n\n")) {
		head, frames, _ := strings.Cut(string(stack), "\n")
		if strings.Contains(head, "[chan send") && strings.Contains(frames, ")."+method+"(") {
			return true
		}
	}
	return false
}

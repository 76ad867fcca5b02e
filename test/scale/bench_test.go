package scale

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/test/process"
)

// latencies of one call of the DLLs: none, for what the agent takes itself, and one
// that is ordinary.
var latencies = []time.Duration{0, 10 * time.Millisecond}

// BenchmarkStart is the first transaction of a process: cold on a node that has
// nothing of ours, restart on one where everything is as it should be.
func BenchmarkStart(b *testing.B) {
	for _, pods := range []int{1_000, 20_000, 100_000} {
		for _, policies := range []int{50, 500, 5_000} {
			b.Run(size{pods, policies, 0}.String(), func(b *testing.B) {
				w := newWorld(pods, policies)
				var n *node
				b.Run("cold", func(b *testing.B) {
					benchmarkStart(b, w, func() *node {
						n = newNode(b, w)
						return n
					})
				})
				if n == nil { // only the other one was asked for
					n = programmed(b, w)
				}
				b.Run("restart", func(b *testing.B) {
					n.t = b
					benchmarkStart(b, w, func() *node {
						n.restart()
						return n
					})
				})
			})
		}
	}
}

// benchmarkStart measures the first transaction of the node's process.
func benchmarkStart(b *testing.B, w *world, begin func() *node) {
	var sum cost
	for b.Loop() {
		b.StopTimer()
		n := begin()
		n.meter.latency = latencies[1]
		c := n.start(b, w.transaction())
		with := process.Live()
		n.dp = nil
		c.live = with - process.Live()
		sum.add(c)
		b.StartTimer()
	}
	sum.report(b)
}

// start applies the first transaction, with the timer running, and watches the heap. The
// caller must not use the transaction after that.
func (n *node) start(b *testing.B, tx *dataplane.Transaction) cost {
	top := watchPeak()
	b.StartTimer()
	c := n.cost(tx)
	b.StopTimer()
	c.peak = top.end()
	return c
}

func BenchmarkChurn(b *testing.B) {
	benchmarkEvent(b, "Churn", size{1_000, 500, 0}, size{100_000, 500, 0}, size{100_000, 5_000, 0})
}

func BenchmarkOneAddressJoinsABusySet(b *testing.B) {
	benchmarkEvent(b, "OneAddressJoinsABusySet", size{1_000, 50, 500})
}

func BenchmarkOnePodManyPolicies(b *testing.B) {
	benchmarkEvent(b, "OnePodManyPolicies", size{1_000, 50, 500})
}

func BenchmarkNamespaceRelabel(b *testing.B) {
	benchmarkEvent(b, "NamespaceRelabel", size{1_000, 500, 5_000})
}

func BenchmarkPolicyEdit(b *testing.B) {
	benchmarkEvent(b, "PolicyEdit", size{1_000, 50, 0}, size{100_000, 5_000, 0})
}

func BenchmarkBigSet(b *testing.B) {
	benchmarkEvent(b, "BigSet", size{1_000, 50, 20_000})
}

// benchmarkEvent plays a scenario, an event in each operation.
func benchmarkEvent(b *testing.B, name string, sizes ...size) {
	s := scenarioNamed(name)
	for _, at := range sizes {
		b.Run(at.String(), func(b *testing.B) {
			n := s.setup(b, at)
			turn := 0
			for _, latency := range latencies {
				b.Run(fmt.Sprintf("latency=%s", latency), func(b *testing.B) {
					n.t, n.meter.latency = b, latency
					var sum cost
					play := func() {
						c := n.cost(s.event(n, turn)...)
						b.StopTimer()
						sum.add(c)
						if s.undo != nil {
							s.undo(n, turn)
						}
						turn++
						b.StartTimer()
					}
					for turn%2 == 1 { // at the opposite of an event
						play()
					}
					sum = cost{}
					runtime.GC() // of what the setup left
					for b.Loop() {
						play()
					}
					sum.report(b)
				})
			}
		})
	}
}

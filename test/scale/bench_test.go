package scale

import (
	"fmt"
	"testing"

	"github.com/winnpm/winnpm/pkg/dataplane"
)

// BenchmarkStart applies the first transaction of a process on a node where everything is
// as it should be.
func BenchmarkStart(b *testing.B) {
	benchmark(b, func(n *node, _ int) []*dataplane.Transaction {
		n.restart()
		return []*dataplane.Transaction{n.world.transaction()}
	})
}

// BenchmarkChurn applies a second of pod events.
func BenchmarkChurn(b *testing.B) { benchmark(b, churn) }

func benchmark(b *testing.B, event func(n *node, turn int) []*dataplane.Transaction) {
	for _, size := range [][2]int{{1_000, 500}, {100_000, 5_000}} {
		b.Run(fmt.Sprintf("pods=%d/policies=%d", size[0], size[1]), func(b *testing.B) {
			n, turn := programmed(b, newWorld(size[0], size[1])), 0
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				txs := event(n, turn)
				turn++
				b.StartTimer()
				n.cost(txs...)
			}
		})
	}
}

package scale

import (
	"context"
	"maps"
	"runtime"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"

	"github.com/winnpm/winnpm/pkg/controllers"
	"github.com/winnpm/winnpm/test/process"
)

// agent is the controllers and the dataplane of one node on the meter, in real
// time.
type agent struct {
	node   *node
	pods   *podStream
	c      *controllers.Controller
	cancel context.CancelFunc
	ended  chan struct{}

	mu      sync.Mutex // guards following
	objects int        // applied so far
	more    chan struct{}
}

// startAgent starts a process and waits until everything is programmed.
func startAgent(b *testing.B, w *world) *agent {
	a := &agent{node: newNode(b, w), ended: make(chan struct{}), more: make(chan struct{}, 1)}
	source, pods := w.source()
	a.pods = pods
	a.c = controllers.New(controllers.Config{
		Source: source, Applier: a.node.dp, Node: nodeName, RequireNodeAddr: true, Logger: klog.Logger{},
		ApplyInterval: 100 * time.Millisecond, // some hundred events in one transaction
		OnApplied:     a.applied,
	})
	ctx, cancel := context.WithCancel(b.Context())
	a.cancel = cancel
	go func() {
		defer close(a.ended)
		a.c.Run(ctx)
	}()
	<-a.c.Settled()
	return a
}

func (a *agent) applied(x controllers.Applied) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.objects += x.Report.Objects
	select {
	case a.more <- struct{}{}:
	default:
	}
}

// take returns how many objects were applied since the last take.
func (a *agent) take() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.objects
	a.objects = 0
	return n
}

// play sends encoded pods and waits until they are applied.
func (a *agent) play(events [][]byte) {
	for _, encoded := range events {
		a.pods.events <- watch.Event{Type: watch.Modified, Object: decode(encoded)}
	}
	for applied := 0; applied < len(events); applied += a.take() {
		<-a.more
	}
}

// stop ends the process.
func (a *agent) stop() {
	a.cancel()
	<-a.ended
}

// agentEvents is how many events one operation has.
const agentEvents = 390

// BenchmarkAgent is the whole process but for the connection to the API server:
// pod events from the protobuf they come in to HNS. peak-heap-MB is that of its
// start, live-heap-MB what it holds after it.
func BenchmarkAgent(b *testing.B) {
	for _, at := range []size{{1_000, 500, 0}, {20_000, 5_000, 0}, {100_000, 5_000, 0}} {
		b.Run(at.String(), func(b *testing.B) {
			w := newWorld(at.pods, at.policies)
			top := watchPeak()
			a := startAgent(b, w)
			sum := cost{peak: top.end(), live: process.Live()}
			a.take()
			version := 1
			for b.Loop() {
				b.StopTimer()
				version++
				events := w.relabels(version)
				a.node.meter.take()
				b.StartTimer()
				used := usageOf(func() { a.play(events) })
				b.StopTimer()
				counts, simulator := a.node.meter.take()
				sum.add(cost{counts: counts, events: len(events), used: used.minus(simulator)})
				b.StartTimer()
			}
			a.stop()
			a = nil
			sum.live -= process.Live()
			runtime.KeepAlive(w) // it is no part of the agent
			sum.report(b)
		})
	}
}

// relabels returns encoded pods with labels of another workload each version:
// each pod once, as two events of one pod may become one, and none as it was, as
// that would bring nothing.
func (w *world) relabels(version int) [][]byte {
	var events [][]byte
	near, far := w.remote()
	for i := range agentEvents {
		from := far
		if i%10 == 0 {
			from = near
		}
		p := w.pods[from[i]]
		p.Labels = maps.Clone(labelsOf(i%nearLoads + version%2))
		p.Labels["track"] = []string{"stable", "canary"}[version%2]
		events = append(events, encode(p, version))
	}
	return events
}

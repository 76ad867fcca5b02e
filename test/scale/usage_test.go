package scale

import (
	"runtime"
	"testing"
	"time"

	"github.com/winnpm/winnpm/test/process"
)

// usage is what a piece of work took from this process: CPU time on all cores,
// the collector's included, and memory allocated.
type usage struct {
	cpu            time.Duration
	objects, bytes uint64
}

func (u usage) plus(o usage) usage {
	return usage{u.cpu + o.cpu, u.objects + o.objects, u.bytes + o.bytes}
}

func (u usage) minus(o usage) usage {
	return usage{u.cpu - o.cpu, u.objects - o.objects, u.bytes - o.bytes}
}

// usageOf returns what the process uses while work is done. The counting itself,
// which stops the world, is outside of the CPU time; whoever counts what is
// inside of it takes all of this off.
func usageOf(work func()) usage {
	var before, after runtime.MemStats // package runtime/metrics is some small objects behind
	runtime.ReadMemStats(&before)
	began := process.CPU()
	work()
	took := process.CPU() - began
	runtime.ReadMemStats(&after)
	return usage{took, after.Mallocs - before.Mallocs, after.TotalAlloc - before.TotalAlloc}
}

// peak watches the heap.
type peak struct {
	before, most int64 // most: of the goroutine until done is closed
	stop, done   chan struct{}
}

// watchPeak begins to watch the heap, from what is on it now.
func watchPeak() *peak {
	p := &peak{before: process.Live(), stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(p.done)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			p.most = max(p.most, process.Heap())
			select {
			case <-tick.C:
			case <-p.stop:
				return
			}
		}
	}()
	return p
}

// end returns the most bytes that there were beyond those of the beginning.
func (p *peak) end() int64 {
	close(p.stop)
	<-p.done
	return max(p.most, process.Heap()) - p.before
}

const megabyte = 1 << 20

// cost is what operations took, without the simulator's part.
type cost struct {
	counts
	ops, events int
	used        usage
	fake        time.Duration
	peak, live  int64 // bytes of the heap, the largest of all operations; 0: not measured
}

// add adds one operation.
func (c *cost) add(o cost) {
	c.ops++
	c.fake += o.fake
	c.peak, c.live = max(c.peak, o.peak), max(c.live, o.live)
	c.join(o)
}

// join adds a part of an operation.
func (c *cost) join(o cost) {
	c.events += o.events
	c.dll += o.dll
	c.sent += o.sent
	c.read += o.read
	if c.calls == nil {
		c.calls = map[string]int{}
	}
	for op, n := range o.calls {
		c.calls[op] += n
	}
	c.used = c.used.plus(o.used)
}

// report makes a benchmark print the cost. B/op and allocs/op are the agent's
// alone.
func (c *cost) report(b *testing.B) {
	b.Helper()
	b.ReportAllocs() // what is reported below takes their place
	per := func(n float64) float64 { return n / float64(c.ops) }
	b.ReportMetric(per(float64(c.requests())), "hns-requests/op")
	b.ReportMetric(per(float64(c.dll)), "dll-calls/op")
	b.ReportMetric(per(float64(c.sent)), "sent-B/op")
	b.ReportMetric(per(float64(c.read)), "read-B/op")
	b.ReportMetric(float64(c.used.cpu.Nanoseconds())/float64(c.events), "agent-ns/event")
	b.ReportMetric(per(float64(c.used.bytes)), "B/op")
	b.ReportMetric(per(float64(c.used.objects)), "allocs/op")
	b.ReportMetric(per(c.fake.Seconds()), "fake-s/op")
	if c.peak > 0 {
		b.ReportMetric(float64(c.peak)/megabyte, "peak-heap-MB")
	}
	if c.live > 0 {
		b.ReportMetric(float64(c.live)/megabyte, "live-heap-MB")
	}
}

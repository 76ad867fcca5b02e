package recorder

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/process"
)

func numbers(steps []Step) []uint64 {
	out := make([]uint64, len(steps))
	for i, s := range steps {
		out[i] = s.Number
	}
	return out
}

// A recording begins with the state before its first step, and that is of a
// moment between two.
func TestSegments(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.MaxSteps = 4 })
	for i := range 4 {
		w.apply(func(tx *dataplane.Transaction) { tx.SetNamespace(desired.Namespace{Name: fmt.Sprint("n", i)}) })
	}
	rec := w.rec.Recording()
	require.Nil(t, rec.Start)
	require.Equal(t, []uint64{1, 2, 3, 4}, numbers(rec.Steps))

	for i := range 9 {
		w.apply(func(tx *dataplane.Transaction) { tx.SetNamespace(desired.Namespace{Name: fmt.Sprint("m", i)}) })
		rec = w.rec.Recording()
		last := uint64(5 + i)
		require.Equal(t, last, rec.Steps[len(rec.Steps)-1].Number)
		require.Equal(t, last, rec.Forgotten+uint64(len(rec.Steps)))
		require.GreaterOrEqual(t, len(rec.Steps), min(int(last), 5))
		require.LessOrEqual(t, len(rec.Steps), 8)
		if rec.Forgotten == 0 {
			require.Nil(t, rec.Start)
			continue
		}
		// One namespace came with every step.
		require.Len(t, rec.Start.Namespaces, int(rec.Forgotten))
		require.Len(t, rec.Start.Reports, int(rec.Forgotten))
	}
	require.Equal(t, uint64(8), rec.Forgotten)
}

// An observation may come in after the state was taken: it is there then.
func TestObservationsGoAlong(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.MaxSteps = 3 })
	superseded, err := w.run.Observe(t.Context(), dataplane.Everything())
	require.NoError(t, err)
	obs, err := w.run.Observe(t.Context(), dataplane.Everything())
	require.NoError(t, err)
	for range 9 {
		w.apply(func(*dataplane.Transaction) {})
	}
	w.apply(func(tx *dataplane.Transaction) { tx.SetObservation(obs) })
	rec := w.rec.Recording()
	last := rec.Steps[len(rec.Steps)-1]
	require.Equal(t, uint64(2), last.Observed)
	i := slices.IndexFunc(rec.Steps, func(s Step) bool { return s.Number == 2 })
	require.GreaterOrEqual(t, i, 0)
	require.Len(t, rec.Steps[i].Calls, 2)
	require.Greater(t, rec.Forgotten, uint64(2))
	require.IsIncreasing(t, numbers(rec.Steps))

	// It came in; what never will is not kept for ever.
	for range 9 {
		w.apply(func(*dataplane.Transaction) {})
	}
	require.NotContains(t, numbers(w.rec.Recording().Steps), uint64(2))
	for range 3 {
		_, err := w.run.Observe(t.Context(), dataplane.Everything())
		require.NoError(t, err)
	}
	require.Len(t, w.rec.observed, maxObserved)
	for range 9 {
		w.apply(func(*dataplane.Transaction) {})
	}
	require.NotContains(t, numbers(w.rec.Recording().Steps), uint64(1))
	w.apply(func(tx *dataplane.Transaction) { tx.SetObservation(superseded) })
	require.Zero(t, w.rec.Brief()[keptBriefs/4].Observed)
	runtime.KeepAlive(superseded)
}

// What is larger than the limit is not kept, and what comes after it is.
func TestTooLarge(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.MaxBytes = 100_000 })
	w.apply(func(*dataplane.Transaction) {})
	w.apply(func(tx *dataplane.Transaction) {
		for i := range 1000 {
			tx.SetPod(pod(fmt.Sprint(i), fmt.Sprintf("10.0.%d.%d", i/256, i%256), strings.Repeat("a", 60)))
		}
	})
	rec := w.rec.Recording()
	require.Empty(t, rec.Steps)
	require.Nil(t, rec.Start)
	require.Equal(t, uint64(2), rec.Forgotten)
	require.Len(t, w.rec.Brief(), 2)
	require.Equal(t, 1000-briefEvents, w.rec.Brief()[1].MoreEvents)

	w.apply(func(*dataplane.Transaction) {})
	rec = w.rec.Recording()
	require.Equal(t, []uint64{3}, numbers(rec.Steps))
	require.Len(t, rec.Start.Pods, 1000)

	// What is too large while it runs.
	w = newWorld(t, func(c *Config) { c.MaxBytes = 100_000 })
	for i := range 200 {
		w.endpoint(fmt.Sprint("e", i), fmt.Sprintf("10.0.0.%d", i))
	}
	w.apply(func(tx *dataplane.Transaction) {
		for i := range 200 {
			tx.SetPod(pod(fmt.Sprint(i), fmt.Sprintf("10.0.0.%d", i), "web"))
		}
		tx.SetPolicy(allow("p", "db", "web"))
	})
	require.Empty(t, w.rec.Recording().Steps)
	require.Zero(t, w.rec.is.bytes)
	brief := w.rec.Brief()[0]
	require.Len(t, brief.Calls, briefCalls)
	require.Equal(t, len(w.sim.Calls()), len(brief.Calls)+brief.MoreCalls)

	// Not even the state fits.
	w = newWorld(t, func(c *Config) { c.MaxBytes, c.MaxSteps = 1000, 2 })
	for range 2 {
		w.apply(func(tx *dataplane.Transaction) { tx.SetNamespace(desired.Namespace{Name: strings.Repeat("n", 900)}) })
	}
	for range 9 {
		w.apply(func(*dataplane.Transaction) {})
		require.Empty(t, w.rec.Recording().Steps)
		require.Zero(t, w.rec.was)
	}
}

// busy is a dataplane whose steps make random calls.
type busy struct {
	client hns.Client
	rand   *rand.Rand
	report state.Report
}

func (b *busy) ApplyDataplane(ctx context.Context, _ *dataplane.Transaction) (state.Report, error) {
	for range b.rand.IntN(4) {
		b.call(ctx)
	}
	return b.report, nil
}

func (b *busy) Observe(ctx context.Context, _ dataplane.Look) (*dataplane.Observation, error) {
	b.call(ctx)
	return &dataplane.Observation{}, nil
}

func (b *busy) NextLook() (dataplane.Look, time.Time) { return dataplane.Look{}, time.Time{} }

func (b *busy) call(ctx context.Context) {
	text := fmt.Sprint(b.rand.Uint64())
	sets := []hns.SetPolicy{{ID: text, Values: slices.Repeat([]string{text}, b.rand.IntN(20))}}
	switch b.rand.IntN(4) {
	case 0:
		_ = b.client.ModifySets(ctx, hns.Add, sets)
	case 1:
		_ = b.client.AddACLs(ctx, text, make([]hns.ACL, b.rand.IntN(20)))
	case 2:
		_, _ = b.client.GetEndpoint(ctx, text)
	default:
		_, _ = b.client.Network(ctx)
	}
}

// What is kept is bounded, whatever comes. The race detector gets by with a
// twentieth.
func TestMemoryIsBounded(t *testing.T) {
	const limit = 4 << 20
	seed := rapid.Uint64().Example()
	t.Logf("seed %d", seed)
	b := &busy{rand: rand.New(rand.NewPCG(seed, 0)), report: state.Report{Errors: []string{"e"}, Warnings: make([]state.Warning, 10)}}
	d := state.Dump{Pods: make([]state.Pod, 10)}
	rec := New(Config{Snapshot: func() func() state.Dump { return func() state.Dump { return d } }, Now: time.Now, MaxBytes: limit})
	b.client = rec.Client(&owner{})
	run := rec.Dataplane(b)
	began, most := process.Live(), int64(0)
	var obs *dataplane.Observation
	transactions := 100_000
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		transactions /= 20
	}
	for i := range transactions {
		tx := dataplane.NewTransaction()
		for range b.rand.IntN(3) {
			name := fmt.Sprint(b.rand.Uint64())
			tx.SetPod(desired.Pod{Name: name, Labels: map[string]string{name: name}})
			tx.SetPolicy(allow(name, "a", "b"))
		}
		switch b.rand.IntN(20) {
		case 0:
			obs, _ = run.Observe(t.Context(), dataplane.Everything())
		case 1:
			tx.SetObservation(obs)
		}
		_, err := run.ApplyDataplane(t.Context(), tx)
		require.NoError(t, err)
		if i%100 == 99 { // they are a thousand times as fast as any
			rec.Wait()
		}
		if (i+1)%(transactions/10) == 0 {
			most = max(most, process.Live())
			require.LessOrEqual(t, rec.is.bytes+rec.was.bytes, limit)
		}
	}
	t.Logf("%d KiB on the heap at most, %d KiB by estimate", (most-began)>>10, (rec.is.bytes+rec.was.bytes)>>10)
	require.Less(t, most-began, int64(limit+limit/2), "with the runtime's own and what is kept in brief")
	runtime.KeepAlive(rec)
}

// Whoever looks and whoever works do not disturb each other.
func TestConcurrentReaders(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.MaxSteps = 8 })
	w.endpoint("e1", "10.0.0.1")
	stop := make(chan struct{})
	var beside sync.WaitGroup
	loop := func(do func()) {
		beside.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					do()
				}
			}
		})
	}
	loop(func() {
		for _, s := range w.rec.Brief() {
			_ = s.brief()
		}
	})
	loop(func() {
		rec := w.rec.Recording()
		require.Equal(t, rec.Start == nil, rec.Forgotten == 0)
		_ = encode(t, rec)
	})
	observed := make(chan *dataplane.Observation, 1)
	loop(func() {
		obs, err := w.run.Observe(t.Context(), dataplane.Everything())
		require.NoError(t, err)
		select {
		case observed <- obs:
		default:
		}
	})
	for i := range 100 {
		w.apply(func(tx *dataplane.Transaction) {
			tx.SetPod(pod("web", "10.0.0.1", fmt.Sprint(i%3)))
			tx.SetPod(desired.Pod{Namespace: "x", Name: "far", UID: "far", Addr: netip.MustParseAddr("10.0.9.9"), Labels: map[string]string{"app": fmt.Sprint(i % 2)}})
			tx.SetPolicy(allow("p", "1", fmt.Sprint(i%2)))
			select {
			case obs := <-observed:
				tx.SetObservation(obs)
			default:
			}
		})
	}
	close(stop)
	beside.Wait()
	require.Empty(t, w.sim.UnusedFaults())
}

// One event costs the same however large the cluster is.
func TestCostOfAStep(t *testing.T) {
	allocs := func(pods int) float64 {
		w := newWorld(t, nil)
		w.apply(func(tx *dataplane.Transaction) {
			for i := range pods {
				tx.SetPod(desired.Pod{Namespace: "y", Name: fmt.Sprint(i), UID: "u", Addr: netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)})})
			}
		})
		w.apply(func(*dataplane.Transaction) {}) // a new segment after so many events
		n := 0
		return testing.AllocsPerRun(50, func() {
			n++
			w.apply(func(tx *dataplane.Transaction) { tx.SetPod(pod("web", "10.0.0.1", fmt.Sprint(n))) })
		})
	}
	few, many := allocs(10), allocs(5000)
	t.Logf("%.0f allocations with 10 pods, %.0f with 5000", few, many)
	require.LessOrEqual(t, many, few+5)
}

// BenchmarkStep is what a step with one event costs beside the dataplane's own.
func BenchmarkStep(b *testing.B) {
	rec := New(Config{Snapshot: func() func() state.Dump { return func() state.Dump { return state.Dump{} } }, Now: time.Now})
	client := rec.Client(&owner{})
	run := rec.Dataplane(steps{apply: func(ctx context.Context) error {
		_, _ = client.GetEndpoint(ctx, "e")
		_ = client.AddACLs(ctx, "e", make([]hns.ACL, 5))
		_, _ = client.GetEndpoint(ctx, "e")
		return nil
	}})
	p := pod("web", "10.0.0.1", "web")
	b.ReportAllocs()
	for b.Loop() {
		tx := dataplane.NewTransaction()
		tx.SetPod(p)
		if _, err := run.ApplyDataplane(b.Context(), tx); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCheckpoint is what it costs to take the state of a large cluster:
// Snapshot is what a transaction waits for, the rest is done beside.
func BenchmarkCheckpoint(b *testing.B) {
	w := newWorld(b, nil)
	w.apply(func(tx *dataplane.Transaction) {
		for i := range 20_000 {
			p := pod(fmt.Sprintf("web-7f9c5d-%05d", i), "10.0.0.1", fmt.Sprint("app-", i%200))
			p.Addr = netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)})
			p.Local = false
			p.Labels["pod-template-hash"], p.Labels["app.kubernetes.io/name"] = fmt.Sprintf("7f9c%x", i%300), fmt.Sprint("app-", i%200)
			tx.SetPod(p)
		}
		for i := range 200 {
			tx.SetPolicy(allow(fmt.Sprint("p", i), fmt.Sprint("app-", i), fmt.Sprint("app-", i+1)))
		}
	})
	b.Run("Snapshot", func(b *testing.B) {
		for b.Loop() {
			s := w.dp.Snapshot()
			b.StopTimer()
			s.Dump()
			b.StartTimer()
		}
	})
	b.Run("Dump", func(b *testing.B) {
		for b.Loop() {
			w.dp.Dump()
		}
	})
	b.Run("Pack", func(b *testing.B) {
		d := w.dp.Dump()
		size := 0
		for b.Loop() {
			start, err := pack(d)
			require.NoError(b, err)
			size = len(start)
		}
		b.ReportMetric(float64(size), "bytes")
	})
	b.Run("Brief", func(b *testing.B) {
		for b.Loop() {
			w.rec.Brief()
		}
	})
}

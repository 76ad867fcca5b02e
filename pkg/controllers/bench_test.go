package controllers

import (
	"context"
	"fmt"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/state"
)

// sink is an Applier that keeps the pods of the last transaction.
type sink struct{ last *dataplane.Transaction }

func (s *sink) ApplyDataplane(_ context.Context, tx *dataplane.Transaction) (state.Report, error) {
	s.last = tx
	return state.Report{}, nil
}

// memory returns the bytes that the runtime has from the system.
func memory() uint64 {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64() - samples[1].Value.Uint64()
}

// BenchmarkFirstList starts a controller on an API server with many pods, to the
// end of the first transaction. The server is in the same process and keeps no
// pod.
func BenchmarkFirstList(b *testing.B) {
	f := fleet{pods: 100_000, workloads: 2000}
	b.Run(fmt.Sprintf("pods=%d", f.pods), func(b *testing.B) {
		for b.Loop() {
			firstList(b, server{fleet: f})
		}
	})
}

func firstList(b *testing.B, s server) {
	web := httptest.NewServer(s)
	defer web.Close()
	defer web.CloseClientConnections()
	source, err := ClusterSource(&rest.Config{Host: web.URL}, "node-000")
	if err != nil {
		b.Fatal(err)
	}
	debug.FreeOSMemory()
	var base runtime.MemStats
	runtime.ReadMemStats(&base)
	before, peak := memory(), uint64(0)
	ctx, cancel := context.WithCancel(b.Context())
	applier := &sink{}
	cfg := Config{Source: source, Applier: applier, Node: "node-000"}
	applied := firstApplied(&cfg)
	c := New(cfg)
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Run(ctx)
	}()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
wait:
	for {
		select {
		case <-applied:
			break wait
		case <-tick.C:
			peak = max(peak, memory())
		}
	}
	if n := applier.last.Len(); n != s.fleet.pods {
		b.Fatal("objects in the first transaction: ", n)
	}
	var with, without runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&with)
	applier.last = nil
	runtime.GC()
	runtime.ReadMemStats(&without)
	cancel()
	<-done
	b.ReportMetric(float64(peak-before)/(1<<20), "peak-MiB")
	b.ReportMetric(float64(with.HeapAlloc-base.HeapAlloc)/(1<<20), "live+tx-MiB")
	b.ReportMetric(float64(without.HeapAlloc-base.HeapAlloc)/(1<<20), "live-MiB")
}

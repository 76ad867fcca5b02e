package ui

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/debug"
	"github.com/winnpm/winnpm/pkg/state"
)

// crowded is a dump of so many workloads of one pod each, all of this node.
func crowded(workloads int) state.Dump {
	d := state.Dump{}
	for i := range workloads {
		d.Pods = append(d.Pods, state.Pod{Pod: fmt.Sprintf("x/w%d", i), Addr: fmt.Sprintf("10.0.%d.%d", i/250, i%250), Labels: map[string]string{"app": fmt.Sprint(i)}, Local: true, Owner: true})
	}
	return d
}

// questions counts how often somebody asks whether the client is still there,
// which is once before each row of a matrix, and lets it go after some.
type questions struct {
	context.Context
	asked *int
	most  int
}

func (q questions) Err() error {
	if *q.asked++; *q.asked > q.most {
		return context.Canceled
	}
	return nil
}

// TestTheClientGoes: no row of a matrix is made for nobody, and half a matrix is
// not kept.
func TestTheClientGoes(t *testing.T) {
	h := handler(crowded(200))
	for _, most := range []int{0, 5, 50} {
		asked := 0
		req := httptest.NewRequestWithContext(questions{t.Context(), &asked, most}, http.MethodGet, apiPath+"matrix", nil)
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, req)
		require.Zero(t, rec.Body.Len())
		require.LessOrEqual(t, asked, most+2, "somebody went on")
	}
	require.Equal(t, http.StatusOK, get(t, h, apiPath+"matrix").Code)
}

// TestWaitingEndsWithTheClient, whatever it waits for.
func TestWaitingEndsWithTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDerived(behind(), newPace(time.Now), newPace(time.Now))
		_, unlock, err := d.lock(t.Context())
		require.NoError(t, err)
		gone, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _, err = d.lock(gone)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		unlock()

		end, err := d.pace.begin(t.Context())
		require.NoError(t, err)
		_, err = d.pace.begin(gone)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		time.Sleep(time.Second)
		end()
		gone, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = d.pace.begin(gone)
		require.ErrorIs(t, err, context.DeadlineExceeded, "it rests")
		began := time.Now()
		end, err = d.pace.begin(t.Context())
		require.NoError(t, err)
		end()
		require.Equal(t, 3*time.Second, time.Since(began), "who gave up leaves the rest as it was")
	})
}

// TestPace: work has a fifth of the time, and rests no longer than is of use.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace(time.Now)
		var worked time.Duration
		began := time.Now()
		for range 10 {
			end, err := p.begin(t.Context())
			require.NoError(t, err)
			time.Sleep(200 * time.Millisecond)
			worked += 200 * time.Millisecond
			end()
		}
		require.LessOrEqual(t, rests*worked, time.Since(began)+rests*200*time.Millisecond)
		require.Equal(t, mostRest, rest(time.Hour))
	})
}

// TestDumpsOfABigCluster: one that takes long is used for longer.
func TestDumpsOfABigCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dumps := 0
		h := Handler(Config{Now: time.Now, Healthy: func() error { return nil }, Ready: func() error { return nil }, Dump: func() state.Dump {
			dumps++
			time.Sleep(time.Second)
			return behind()
		}})
		for range 60 {
			get(t, h, apiPath+"status")
			time.Sleep(time.Second)
		}
		require.LessOrEqual(t, dumps, 15)
	})
}

// TestTenMatrices: of ten small requests at once, four are answered when they are
// one client's, two at a time, and none when another site sent the browser. The
// others cost nothing.
func TestTenMatrices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most, all, dumps atomic.Int64
		inner := Handler(Config{Now: time.Now, Healthy: func() error { return nil }, Ready: func() error { return nil }, Dump: func() state.Dump {
			dumps.Add(1)
			return crowded(20)
		}})
		h := debug.Handler(debug.Config{Healthy: func() error { return nil }, Ready: func() error { return nil }, Pages: debug.Site(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			most.Store(max(most.Load(), now.Add(1)))
			all.Add(1)
			defer now.Add(-1)
			time.Sleep(100 * time.Millisecond)
			inner.ServeHTTP(w, r)
		}), Heavy()...)})
		ten := func(site string) map[int]int {
			codes := make(chan int, 10)
			var clients sync.WaitGroup
			for i := range cap(codes) {
				clients.Go(func() {
					req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("%smatrix?port=%d/TCP", apiPath, i+1), nil)
					req.RemoteAddr, req.Host = "127.0.0.1:1", "localhost"
					if site != "" {
						req.Header.Set("Sec-Fetch-Site", site)
					}
					rec := httptest.NewRecorder()
					h.ServeHTTP(rec, req)
					codes <- rec.Code
				})
			}
			clients.Wait()
			got := map[int]int{}
			for range cap(codes) {
				got[<-codes]++
			}
			return got
		}
		require.Equal(t, map[int]int{http.StatusForbidden: 10}, ten("cross-site"))
		require.Zero(t, all.Load()+dumps.Load())
		require.Equal(t, map[int]int{http.StatusOK: 4, http.StatusServiceUnavailable: 6}, ten(""))
		require.EqualValues(t, 2, most.Load())
		require.EqualValues(t, 4, all.Load())
		require.EqualValues(t, 1, dumps.Load())
	})
}

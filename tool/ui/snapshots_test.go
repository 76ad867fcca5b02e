package ui

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/state"
)

// TestOneDumpForAll: however many ask, a dump is taken at most once a second,
// and what was made from it holds until something changes.
func TestOneDumpForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dumps, was := 0, behind()
		s := &snapshots{now: time.Now, dump: func() state.Dump {
			dumps++
			time.Sleep(100 * time.Millisecond)
			d := was
			d.Time = time.Now()
			return d
		}}
		ask := func() []*snapshot {
			out := make([]*snapshot, 20)
			var all sync.WaitGroup
			for i := range out {
				all.Go(func() {
					got, err := s.get(t.Context())
					require.NoError(t, err)
					out[i] = got
				})
			}
			all.Wait()
			return out
		}
		first := ask()
		for _, got := range first {
			require.Same(t, first[0], got)
		}
		ask()
		require.Equal(t, 1, dumps)

		time.Sleep(interval)
		second := ask()
		require.Equal(t, 2, dumps)
		require.NotEqual(t, first[0].dump.Time, second[0].dump.Time)
		require.Same(t, first[0].derived, second[0].derived, "time alone is no change")

		was = behind()
		was.Pods = was.Pods[1:]
		time.Sleep(interval)
		third := ask()
		require.NotSame(t, second[0].derived, third[0].derived)
		require.NotEqual(t, second[0].digest, third[0].digest)
	})
}

// TestAClientThatGoes does not wait for a dump, nor does anybody for it.
func TestAClientThatGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &snapshots{now: time.Now, dump: func() state.Dump {
			time.Sleep(time.Minute)
			return behind()
		}}
		var first sync.WaitGroup
		first.Go(func() {
			_, err := s.get(t.Context())
			require.NoError(t, err)
		})
		synctest.Wait()
		gone, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := s.get(gone)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		first.Wait()
		_, err = s.get(t.Context())
		require.NoError(t, err)
	})
}

// TestADumpThatPanics ends one request, not all that come after it.
func TestADumpThatPanics(t *testing.T) {
	broken := errors.New("broken")
	bad := true
	s := &snapshots{now: time.Now, dump: func() state.Dump {
		if bad {
			panic(broken)
		}
		return behind()
	}}
	require.PanicsWithValue(t, broken, func() { _, _ = s.get(t.Context()) })
	bad = false
	got, err := s.get(t.Context())
	require.NoError(t, err)
	require.Equal(t, "n1", got.dump.Node)
}

// TestUnchanged: who has an answer of the same state gets none again.
func TestUnchanged(t *testing.T) {
	now, was := taken, behind()
	h := Handler(Config{
		Dump: func() state.Dump { return was }, Now: func() time.Time { return now },
		Healthy: func() error { return nil }, Ready: func() error { return nil },
	})
	path := apiPath + "matrix?port=80/TCP"
	tag := get(t, h, path).Header().Get("ETag")
	require.NotEmpty(t, tag)
	require.NotEqual(t, tag, get(t, h, apiPath+"matrix?port=81/TCP").Header().Get("ETag"))
	now, was.Time = now.Add(time.Minute), now.Add(time.Minute)
	require.Equal(t, http.StatusNotModified, get(t, h, path, "If-None-Match", tag).Code)
	now = now.Add(time.Minute)
	was.Endpoints[0].Applied = nil
	changed := get(t, h, path, "If-None-Match", tag)
	require.Equal(t, http.StatusOK, changed.Code)
	require.NotEqual(t, tag, changed.Header().Get("ETag"))

	tag = changed.Header().Get("ETag")
	for _, change := range []func(){
		func() { was.ClusterPolicies = append(was.ClusterPolicies, state.ClusterPolicy{Name: "c"}) },
		func() { was.Nodes = append(was.Nodes, state.Node{Name: "n9"}) },
	} {
		now = now.Add(time.Minute)
		change()
		is := get(t, h, path, "If-None-Match", tag)
		require.Equal(t, http.StatusOK, is.Code, "nothing of it changes a rule")
		tag = is.Header().Get("ETag")
	}
}

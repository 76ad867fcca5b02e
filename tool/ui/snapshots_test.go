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

	"github.com/winnpm/winnpm/pkg/debug"
	"github.com/winnpm/winnpm/pkg/state"
)

// TestOneDumpForAll: requests at the same time share a dump, and it is taken at most once per MaxAge.
func TestOneDumpForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dumps := 0
		s := newSnapshots(Config{MaxAge: time.Second, Dump: func(context.Context) (state.Dump, error) {
			dumps++
			time.Sleep(100 * time.Millisecond)
			return behind(), nil
		}})
		ask := func() *snapshot {
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
			for _, got := range out {
				require.Same(t, out[0], got)
			}
			return out[0]
		}
		first := ask()
		require.Same(t, first, ask())
		require.Equal(t, 1, dumps)
		time.Sleep(time.Second)
		require.NotSame(t, first, ask())
		require.Equal(t, 2, dumps)
	})
}

// TestFixedDump: a saved dump is read once, and its page says that it does not change.
func TestFixedDump(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, dumps := Fixed(behind(), nil, "a saved dump"), 0
		dump := cfg.Dump
		cfg.Dump = func(ctx context.Context) (state.Dump, error) {
			dumps++
			return dump(ctx)
		}
		h := Handler(cfg)
		for range 3 {
			require.Contains(t, get(t, h, "/api/status").Body.String(), `"fixed":true,"shown":"2026-01-02T03:04:05Z"`)
			time.Sleep(time.Hour)
		}
		require.Equal(t, 1, dumps)
	})
}

// TestAClientThatGoes: a request whose client has gone does not wait for a dump.
func TestAClientThatGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSnapshots(Config{Dump: func(context.Context) (state.Dump, error) {
			time.Sleep(time.Minute)
			return behind(), nil
		}})
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

// TestAnAgentThatDoesNotAnswer: every view says why, and the next request asks again.
func TestAnAgentThatDoesNotAnswer(t *testing.T) {
	broken := errors.New("no answer within 10s")
	h := Handler(Config{
		MaxAge: time.Second,
		Dump:   func(context.Context) (state.Dump, error) { return behind(), broken },
		Status: func(context.Context) (debug.Status, error) { return debug.Status{}, nil },
	})
	for _, path := range []string{"/api/status", "/api/pods", "/api/matrix"} {
		rec := get(t, h, path)
		require.Equal(t, http.StatusBadGateway, rec.Code, path)
		require.JSONEq(t, `{"error":"no answer within 10s"}`, rec.Body.String())
	}
	broken = nil
	require.Equal(t, http.StatusOK, get(t, h, "/api/pods").Code)
}

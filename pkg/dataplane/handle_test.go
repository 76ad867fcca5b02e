package dataplane

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/hns"
)

// holder is a client that only notes which handles are open.
type holder struct {
	hns.Client
	log []string
}

func (h *holder) Hold(_ context.Context, endpoint string) func() {
	h.log = append(h.log, "hold "+endpoint)
	return func() { h.log = append(h.log, "release "+endpoint) }
}

// TestSharedHandle: requests that follow each other for one endpoint share a handle. It
// is released before anything else is asked, and at the end.
func TestSharedHandle(t *testing.T) {
	request := func(endpoint string, shared bool) Request {
		return Request{Request: hns.Request{Op: hns.OpEndpointGet, Endpoint: endpoint}, Shared: shared}
	}
	for name, tc := range map[string]struct {
		requests []Request
		log      []string
	}{
		"none":           {[]Request{request("a", false), request("b", false)}, nil},
		"one":            {[]Request{request("a", true), request("a", true)}, []string{"hold a", "release a"}},
		"two":            {[]Request{request("a", true), request("b", true)}, []string{"hold a", "release a", "hold b", "release b"}},
		"not any more":   {[]Request{request("a", true), request("a", false)}, []string{"hold a", "release a"}},
		"one in between": {[]Request{request("a", true), {Request: hns.Request{Op: hns.OpNetworkGet}}, request("a", true)}, []string{"hold a", "release a", "hold a", "release a"}},
	} {
		t.Run(name, func(t *testing.T) {
			client := &holder{}
			h := handle{client: client}
			for i, r := range tc.requests {
				h.share(t.Context(), r)
				if !r.Shared && len(client.log) > 0 {
					require.Contains(t, client.log[len(client.log)-1], "release", "request %d", i)
				}
			}
			h.release()
			h.release()
			require.Equal(t, tc.log, client.log)
		})
	}
}

// TestCorePanics: a panic within the core reaches the caller with the stack that it had,
// though the core runs as a coroutine.
func TestCorePanics(t *testing.T) {
	d := New(Config{Client: panicker{}, Now: time.Now})
	d.core.desired = nil
	tx := NewTransaction()
	tx.SetNamespace(desired.Namespace{Name: "x"})
	defer func() {
		err, is := recover().(error)
		require.True(t, is)
		var bug runtime.Error
		require.ErrorAs(t, err, &bug)
		require.Contains(t, err.Error(), "(*core).stage(")
		require.NotZero(t, d.Progress(), "it says where it was")
	}()
	_, _ = d.ApplyDataplane(t.Context(), tx)
}

// panicker is a client with a bug.
type panicker struct{ hns.Client }

func (panicker) Network(context.Context) (hns.Network, error) { panic("a bug of the client") }

// TestClientPanics: a panic of the client reaches the caller, leaves no coroutine behind,
// and no lock: the state can be looked at.
func TestClientPanics(t *testing.T) {
	d := New(Config{Client: panicker{}, Now: time.Now})
	before := runtime.NumGoroutine()
	for range 20 {
		require.PanicsWithValue(t, "a bug of the client", func() {
			_, _ = d.ApplyDataplane(t.Context(), NewTransaction())
		})
	}
	require.Nil(t, d.core.run)
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+1 }, 5*time.Second, time.Millisecond)
	require.NotZero(t, d.Dump().Time)
}

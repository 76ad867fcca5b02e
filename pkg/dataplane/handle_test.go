package dataplane

import (
	"context"
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

func (h *holder) GetEndpoint(context.Context, string) (e hns.Endpoint, _ error) { return e, nil }

func (h *holder) Network(context.Context) (n hns.Network, _ error) { return n, nil }

// TestSharedHandle: requests that follow each other for one endpoint share a handle. It
// is released before anything else is asked, and at the end.
func TestSharedHandle(t *testing.T) {
	type request struct {
		hns.Request
		shared bool
	}
	get := func(endpoint string, shared bool) request {
		return request{hns.Request{Op: hns.OpEndpointGet, Endpoint: endpoint}, shared}
	}
	for name, tc := range map[string]struct {
		requests []request
		log      []string
	}{
		"none":           {[]request{get("a", false), get("b", false)}, nil},
		"one":            {[]request{get("a", true), get("a", true)}, []string{"hold a", "release a"}},
		"two":            {[]request{get("a", true), get("b", true)}, []string{"hold a", "release a", "hold b", "release b"}},
		"not any more":   {[]request{get("a", true), get("a", false)}, []string{"hold a", "release a"}},
		"one in between": {[]request{get("a", true), {Request: hns.Request{Op: hns.OpNetworkGet}}, get("a", true)}, []string{"hold a", "release a", "hold a", "release a"}},
	} {
		t.Run(name, func(t *testing.T) {
			client := &holder{}
			h := handle{client: client}
			for i, r := range tc.requests {
				h.call(t.Context(), r.Request, r.shared)
				if !r.shared && len(client.log) > 0 {
					require.Contains(t, client.log[len(client.log)-1], "release", "request %d", i)
				}
			}
			h.release()
			h.release()
			require.Equal(t, tc.log, client.log)
		})
	}
}

// TestStagePanics: a panic under the state lock reaches the caller, and leaves no lock behind.
func TestStagePanics(t *testing.T) {
	d := New(Config{Now: time.Now})
	is := d.core.desired
	d.core.desired = nil
	tx := NewTransaction()
	tx.SetNamespace(desired.Namespace{Name: "x"})
	require.Panics(t, func() { _, _ = d.ApplyDataplane(t.Context(), tx) })
	require.NotZero(t, d.Progress(), "it says where it was")
	d.core.desired = is
	require.NotZero(t, d.Dump().Time)
}

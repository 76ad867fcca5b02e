package debug

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/hnsfault"
)

// stub answers every call with one error, after moving the clock.
type stub struct {
	err   error
	clock time.Time
	takes time.Duration
	sets  []hns.SetPolicy
	acls  []hns.ACL

	released int // endpoints that were held
}

func (s *stub) now() time.Time { return s.clock }

func (s *stub) answer() error {
	s.clock = s.clock.Add(s.takes)
	return s.err
}

func (s *stub) Network(context.Context) (hns.Network, error) { return hns.Network{ID: "n"}, s.answer() }

func (s *stub) EndpointIDs(context.Context) ([]string, error) { return []string{"e"}, s.answer() }

func (s *stub) NewEndpointIDs(context.Context) ([]string, error) { return []string{"new"}, s.answer() }

func (s *stub) Hold(context.Context, string) func() { return func() { s.released++ } }

func (s *stub) GetEndpoint(_ context.Context, id string) (hns.Endpoint, error) {
	return hns.Endpoint{ID: id}, s.answer()
}

func (s *stub) ModifySets(_ context.Context, _ hns.Verb, sets []hns.SetPolicy) error {
	s.sets = sets
	return s.answer()
}

func (s *stub) AddACLs(_ context.Context, _ string, acls []hns.ACL) error {
	s.acls = acls
	return s.answer()
}

func (s *stub) ReplacePolicies(context.Context, string, []hns.EndpointPolicy) error {
	return s.answer()
}

// TestCalls: which series one call moves, and by how much.
func TestCalls(t *testing.T) {
	t.Parallel()
	leaf, nested := []hns.SetPolicy{{ID: "a", Type: hns.IPSet}}, []hns.SetPolicy{{ID: "b", Type: hns.NestedIPSet}}
	set := func(verb hns.Verb, sets []hns.SetPolicy) func(context.Context, hns.Client) error {
		return func(ctx context.Context, c hns.Client) error { return c.ModifySets(ctx, verb, sets) }
	}
	getEndpoint := func(ctx context.Context, c hns.Client) error { _, err := c.GetEndpoint(ctx, "e"); return err }
	gone := &hns.OpError{Kind: hns.KindEndpoint, Err: hns.ErrNotFound}
	for name, test := range map[string]struct {
		call      func(context.Context, hns.Client) error
		err       error
		operation string
		class     string // of the error
		metric    string
		labels    string
		failed    bool
		millis    string // the summary that moves too
	}{
		"network":           {func(ctx context.Context, c hns.Client) error { _, err := c.Network(ctx); return err }, nil, "Network/Get", "", "get_network", "", false, ""},
		"network is gone":   {func(ctx context.Context, c hns.Client) error { _, err := c.Network(ctx); return err }, hns.ErrNotFound, "Network/Get", "not_found", "get_network", "", true, ""},
		"enumerate":         {func(ctx context.Context, c hns.Client) error { _, err := c.EndpointIDs(ctx); return err }, hns.ErrUnavailable, "Endpoint/Enumerate", "unavailable", "list_endpoints", "", true, ""},
		"endpoint":          {getEndpoint, nil, "Endpoint/Get", "", "get_endpoint", "", false, ""},
		"endpoint is gone":  {getEndpoint, gone, "Endpoint/Get", "not_found", "get_endpoint", "", false, ""},
		"not ours":          {getEndpoint, hns.ErrElsewhere, "Endpoint/Get", "elsewhere", "get_endpoint", "", false, ""},
		"an odd answer":     {getEndpoint, hns.ErrUnlisted, "Endpoint/Get", "unlisted", "get_endpoint", "", true, ""},
		"endpoint unread":   {getEndpoint, errors.New("odd"), "Endpoint/Get", "unavailable", "get_endpoint", "", true, ""},
		"deadline":          {getEndpoint, context.DeadlineExceeded, "Endpoint/Get", "unavailable", "get_endpoint", "", true, ""},
		"add sets":          {set(hns.Add, leaf), nil, "SetPolicy/Add", "", "setpolicy", `{is_nested="false",operation="create"}`, false, "npm_add_ipset_exec_time"},
		"add nested sets":   {set(hns.Add, nested), hns.ErrAlreadyExists, "SetPolicy/Add", "already_exists", "setpolicy", `{is_nested="true",operation="create"}`, true, "npm_add_ipset_exec_time"},
		"update sets":       {set(hns.Update, nested), nil, "SetPolicy/Update", "", "setpolicy", `{is_nested="true",operation="update"}`, false, ""},
		"remove sets":       {set(hns.Remove, leaf), fmt.Errorf("x: %w", hns.ErrInUse), "SetPolicy/Remove", "in_use", "setpolicy", `{is_nested="false",operation="delete"}`, true, ""},
		"add rules":         {func(ctx context.Context, c hns.Client) error { return c.AddACLs(ctx, "e", nil) }, hns.ErrInvalid, "ACL/Add", "invalid", "acl", `{operation="create"}`, true, "npm_add_iptables_rule_exec_time"},
		"rules of a ghost":  {func(ctx context.Context, c hns.Client) error { return c.AddACLs(ctx, "e", nil) }, gone, "ACL/Add", "not_found", "acl", `{operation="create"}`, true, "npm_add_iptables_rule_exec_time"},
		"replace rules":     {func(ctx context.Context, c hns.Client) error { return c.ReplacePolicies(ctx, "e", nil) }, nil, "ACL/Update", "", "acl", `{operation="update"}`, false, "npm_add_iptables_rule_exec_time"},
		"replace conflicts": {func(ctx context.Context, c hns.Client) error { return c.ReplacePolicies(ctx, "e", nil) }, hns.ErrConflict, "ACL/Update", "conflict", "acl", `{operation="update"}`, true, "npm_add_iptables_rule_exec_time"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &stub{err: test.err, takes: 500 * time.Millisecond}
			o := quiet()
			o.Now = s.now
			m := NewMetrics(o)
			before := read(t, m.node)
			require.Equal(t, test.err, test.call(t.Context(), m.Client(s)), "errors pass untouched")

			want := map[string]float64{
				`npm_hns_calls_total{operation="` + test.operation + `"}`:             1,
				"npm_windows_" + test.metric + "_latency_seconds_count" + test.labels: 1,
				"npm_windows_" + test.metric + "_latency_seconds_sum" + test.labels:   0.5,
			}
			if test.class != "" {
				want[`npm_hns_errors_total{class="`+test.class+`",operation="`+test.operation+`"}`] = 1
			}
			if test.failed {
				want["npm_windows_"+test.metric+"_failure_total"+test.labels] = 1
			}
			if test.millis != "" {
				want[test.millis+"_count"], want[test.millis+"_sum"] = 1, 500
			}
			require.Empty(t, cmp.Diff(want, changed(before, read(t, m.node))))
		})
	}
}

// TestPassesThrough: results come back also beside an error, and arguments go
// on as they are, not as copies.
func TestPassesThrough(t *testing.T) {
	t.Parallel()
	s := &stub{err: hns.ErrConflict}
	o := quiet()
	o.Now = s.now
	c := NewMetrics(o).Client(s)
	n, _ := c.Network(t.Context())
	require.Equal(t, hns.Network{ID: "n"}, n)
	ids, _ := c.EndpointIDs(t.Context())
	require.Equal(t, []string{"e"}, ids)
	release := c.Hold(t.Context(), "x")
	require.Zero(t, s.released)
	release()
	require.Equal(t, 1, s.released)
	e, _ := c.GetEndpoint(t.Context(), "x")
	require.Equal(t, hns.Endpoint{ID: "x"}, e)
	sets, acls := []hns.SetPolicy{{ID: "a"}}, []hns.ACL{{ID: "b"}}
	require.ErrorIs(t, c.ModifySets(t.Context(), hns.Add, sets), hns.ErrConflict)
	require.ErrorIs(t, c.AddACLs(t.Context(), "x", acls), hns.ErrConflict)
	require.Same(t, &sets[0], &s.sets[0])
	require.Same(t, &acls[0], &s.acls[0])
}

// TestBegun: a call that hangs is counted, though nobody knows yet for how long.
func TestBegun(t *testing.T) {
	t.Parallel()
	sim := hnsfault.New(hnsfault.Options{})
	m := NewMetrics(quiet())
	before := read(t, m.node)
	sim.OnCall(func(_ hnsfault.Call, when hnsfault.When) {
		if when == hnsfault.Before {
			require.Equal(t, map[string]float64{`npm_hns_calls_total{operation="Network/Get"}`: 1}, changed(before, read(t, m.node)))
		}
	})
	_, err := m.Client(sim).Network(t.Context())
	require.NoError(t, err)
	require.InDelta(t, 1, read(t, m.node)["npm_windows_get_network_latency_seconds_count"], 0)
}

package versioned_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/versioned"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// That a write reads back as it was asked for is a question of the contract suite
// (test/hnstest/endpoints.go). Here are a Writer's calls and what it makes of their errors.

var rule = hns.ACL{ID: hns.ACLIDPrefix + "x.p", Action: hns.Allow, Direction: hns.In, RuleType: hns.Switch, Priority: hns.PriorityAllow}

// start returns a simulator with one endpoint, and that endpoint's version.
func start(t *testing.T) (*hnsfault.Sim, hns.Version) {
	t.Helper()
	sim := hnsfault.New(hnsfault.Options{})
	require.NoError(t, sim.CreateEndpoint(hnssim.SimEndpoint{ID: "ep", Addrs: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}))
	e, err := sim.GetEndpoint(t.Context(), "ep")
	require.NoError(t, err)
	sim.ResetCalls()
	return sim, e.Basis()
}

// write is Add or Replace.
type write func(w versioned.Writer, from hns.Version) (versioned.Done, error)

var writes = map[string]write{
	hns.OpACLAdd: func(w versioned.Writer, from hns.Version) (versioned.Done, error) {
		return w.Add("ep", from, []hns.ACL{rule})
	},
	hns.OpACLUpdate: func(w versioned.Writer, from hns.Version) (versioned.Done, error) {
		return w.Replace("ep", from, []hns.ACL{rule})
	},
}

func TestCallsOfAWrite(t *testing.T) {
	for op, write := range writes {
		t.Run(op, func(t *testing.T) {
			sim, from := start(t)
			_, err := write(versioned.Writer{Ask: hns.Asking(t.Context(), sim)}, from)
			require.NoError(t, err)
			require.Equal(t, map[string]int{hns.OpEndpointGet: 2, op: 1}, sim.Counts())
		})
		t.Run(op+" of what was seen", func(t *testing.T) {
			sim, from := start(t)
			seen, err := sim.GetEndpoint(t.Context(), "ep")
			require.NoError(t, err)
			sim.ResetCalls()
			w := versioned.Writer{Ask: hns.Asking(t.Context(), sim), Seen: &seen}
			done, err := write(w, from)
			require.NoError(t, err)
			reads := 1
			if op == hns.OpACLUpdate {
				reads = 2 // others' policies go back as they are now
			}
			require.Equal(t, map[string]int{hns.OpEndpointGet: reads, op: 1}, sim.Counts())
			require.Equal(t, done.Version, done.Shown.Basis())

			_, err = write(w, "stale")
			require.ErrorIs(t, err, hns.ErrConflict)
			require.Equal(t, 1, sim.Counts()[op], "nothing is written")
		})
		t.Run(op+" unchecked", func(t *testing.T) {
			sim, _ := start(t)
			v, err := write(versioned.Writer{Ask: hns.Asking(t.Context(), sim), Unchecked: true}, "stale")
			require.NoError(t, err)
			require.Equal(t, versioned.Unchecked, v.Version)
			want := map[string]int{op: 1}
			if op == hns.OpACLUpdate {
				want[hns.OpEndpointGet] = 1 // for the policies of others
			}
			require.Equal(t, want, sim.Counts())
		})
	}
}

// TestErrorsOfAWrite: what each of the three calls can answer, and what follows.
func TestErrorsOfAWrite(t *testing.T) {
	for op, write := range writes {
		for name, test := range map[string]struct {
			fault                hnsfault.Fault
			unread, gone, unsure bool
			written              bool
		}{
			"read before":        {fault: hnsfault.Fault{Op: hns.OpEndpointGet, Err: hns.ErrInvalid}, unread: true},
			"gone before":        {fault: hnsfault.Fault{Op: hns.OpEndpointGet, Err: hns.ErrNotFound}, unread: true, gone: true},
			"the write":          {fault: hnsfault.Fault{Op: op, Err: hns.ErrUnavailable}, unsure: true},
			"the write's reply":  {fault: hnsfault.Fault{Op: op, Mode: hnsfault.LoseReply}, unsure: true, written: true},
			"read after":         {fault: hnsfault.Fault{Op: hns.OpEndpointGet, Nth: 2, Err: hns.ErrUnavailable}, unsure: true, written: true},
			"read after refused": {fault: hnsfault.Fault{Op: hns.OpEndpointGet, Nth: 2, Err: hns.ErrInvalid}, unsure: true, written: true},
			"gone after":         {fault: hnsfault.Fault{Op: hns.OpEndpointGet, Nth: 2, Err: hns.ErrNotFound}, gone: true, written: true},
		} {
			t.Run(fmt.Sprint(op, " ", name), func(t *testing.T) {
				sim, from := start(t)
				sim.Inject(test.fault)
				v, err := write(versioned.Writer{Ask: hns.Asking(t.Context(), sim)}, from)
				require.Error(t, err)
				require.Empty(t, v)
				require.Equal(t, test.unread, errors.Is(err, versioned.ErrUnread))
				require.Equal(t, test.gone, hns.EndpointGone(err))
				require.Equal(t, test.unsure, hns.OutcomeUnknown(err), err)
				require.NotErrorIs(t, err, hns.ErrConflict)
				e, err := sim.GetEndpoint(t.Context(), "ep")
				require.NoError(t, err)
				ours, _ := e.Split()
				require.Equal(t, test.written, len(ours) == 1)
			})
		}
	}
}

// forgetful is an HNS whose endpoints lack the policies of other programs from the second read on, as
// after a write that removed them.
type forgetful struct {
	hns.Client
	reads int
}

func (f *forgetful) GetEndpoint(ctx context.Context, id string) (hns.Endpoint, error) {
	e, err := f.Client.GetEndpoint(ctx, id)
	if f.reads++; f.reads > 1 {
		e.Policies = slices.DeleteFunc(e.Policies, func(p hns.EndpointPolicy) bool { return p.Type == other.Type })
	}
	return e, err
}

var other = hns.EndpointPolicy{Type: "OutBoundNAT", Settings: []byte(`{}`)}

// TestOthersMissingAfterAWrite: if a policy of another program is missing after a write, the write is
// a conflict, which has the current endpoint (I7). This also holds if HNS rejected the write, or
// shows our rules in another spelling.
func TestOthersMissingAfterAWrite(t *testing.T) {
	for op, write := range writes {
		for name, tc := range map[string]struct {
			fault *hnsfault.Fault
			shown []int // the priority of our rule by the number of the read
		}{
			"done":                {},
			"refused":             {fault: &hnsfault.Fault{Op: op, Code: 0x803B000D, Mode: hnsfault.Refuse}},
			"in another spelling": {shown: []int{0, 7, 7}},
		} {
			t.Run(op+" "+name, func(t *testing.T) {
				sim, _ := start(t)
				require.NoError(t, sim.SetPolicies("ep", []hns.EndpointPolicy{other}))
				e, err := sim.GetEndpoint(t.Context(), "ep")
				require.NoError(t, err)
				if tc.fault != nil {
					sim.Inject(*tc.fault)
				}
				learned := false
				w := versioned.Writer{
					Ask:   hns.Asking(t.Context(), &forgetful{Client: &shower{Sim: sim, priorities: tc.shown}}),
					Learn: func(_, _ hns.Endpoint, _ []hns.ACL) bool { learned = true; return true },
					Ours: func(a hns.ACL) (hns.ACL, bool) {
						if learned {
							a.Priority = rule.Priority
						}
						return a, a.Ours()
					},
				}
				done, err := write(w, e.Basis())
				var conflict *versioned.Conflict
				require.ErrorAs(t, err, &conflict)
				require.True(t, conflict.Written)
				require.Empty(t, done)
				_, foreign := conflict.Endpoint.Split()
				require.Empty(t, foreign)
			})
		}
	}
}

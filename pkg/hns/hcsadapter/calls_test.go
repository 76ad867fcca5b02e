package hcsadapter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// operations are those of hns.Client, and the calls of HNS that each makes when
// the ID of the network is known.
func operations(network string) map[string]struct {
	do    func(context.Context, *Adapter) error
	calls []string
} {
	type operation = struct {
		do    func(context.Context, *Adapter) error
		calls []string
	}
	return map[string]operation{
		"Network": {func(ctx context.Context, a *Adapter) error {
			_, err := a.Network(ctx)
			return err
		}, readsNetwork(network)},
		"GetEndpoint": {func(ctx context.Context, a *Adapter) error {
			_, err := a.GetEndpoint(ctx, "ep")
			return err
		}, reads(kindEndpoint, "ep")},
		"ModifySets": {func(ctx context.Context, a *Adapter) error {
			return a.ModifySets(ctx, hns.Update, []hns.SetPolicy{leaf})
		}, modifies(kindNetwork, network)},
		"AddACLs": {func(ctx context.Context, a *Adapter) error {
			return a.AddACLs(ctx, "ep", []hns.ACL{webRule})
		}, modifies(kindEndpoint, "ep")},
		"ReplacePolicies": {func(ctx context.Context, a *Adapter) error {
			return a.ReplacePolicies(ctx, "ep", []hns.EndpointPolicy{hns.NewACLPolicy(webRule)})
		}, modifies(kindEndpoint, "ep")},
		"EndpointIDs": {func(ctx context.Context, a *Adapter) error {
			_, err := a.EndpointIDs(ctx)
			return err
		}, callsWide},
		"a write between two reads": {func(ctx context.Context, a *Adapter) error {
			defer a.Hold(ctx, "ep")()
			_, before := a.GetEndpoint(ctx, "ep")
			write := a.AddACLs(ctx, "ep", []hns.ACL{webRule})
			_, after := a.GetEndpoint(ctx, "EP")
			return errors.Join(before, write, after)
		}, []string{
			"HcnOpenEndpoint ep", "HcnQueryEndpointProperties ep", "HcnModifyEndpoint ep", "HcnQueryEndpointProperties ep", "HcnCloseEndpoint ep",
		}},
		"nothing of what is held": {func(ctx context.Context, a *Adapter) error {
			a.Hold(ctx, "ep")()
			return nil
		}, nil},
	}
}

// onThree returns an adapter that has read the network, with three endpoints.
func onThree(t *testing.T) (*Adapter, *faulty, *simNode) {
	t.Helper()
	a, f, s := onFaulty(t)
	for _, id := range []string{"other", "too"} {
		require.NoError(t, s.AddEndpoint(hnssim.SimEndpoint{ID: id}))
	}
	getNetwork(t, a)
	f.calls = nil
	return a, f, s
}

// TestCallsOfAnOperation: no call is made that is not needed, and none twice.
func TestCallsOfAnOperation(t *testing.T) {
	_, _, s := onThree(t)
	for name, op := range operations(s.id) {
		t.Run(name, func(t *testing.T) {
			a, f, _ := onThree(t)
			for range 2 {
				f.calls = nil
				require.NoError(t, op.do(t.Context(), a))
				require.Equal(t, op.calls, f.calls)
			}
		})
	}
}

// TestNothingStaysOpen: whichever call fails, in whatever way, every handle is
// closed, once, and not used before that again; a close that fails spoils nothing.
func TestNothingStaysOpen(t *testing.T) {
	_, _, s := onThree(t)
	for name, op := range operations(s.id) {
		for i, failing := range op.calls {
			for _, code := range []uint32{0, codeRPC, codeEndpointNotFound, codeNetworkNotFound, codeInvalidPolicy, codeElementNotFound, codeUnloaded} {
				for _, done := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s %d %#x %t", name, i, code, done), func(t *testing.T) {
						a, f, s := onThree(t)
						fail := func(string) error {
							if len(f.calls) == i+1 {
								return coded(code)
							}
							return nil
						}
						if done {
							f.after = fail
						} else {
							f.before = fail
						}
						err := op.do(t.Context(), a)
						require.Equal(t, failing, f.calls[i])
						require.Zero(t, s.OpenHandles(), "%v", f.calls)
						require.Empty(t, f.misuses, "%v", f.calls)
						if strings.HasPrefix(failing, "HcnClose") {
							require.NoError(t, err)
						}
					})
				}
			}
		}
	}
}

// TestOpenWithoutAHandle: success without anything to close is an error, and no
// call is made with it.
func TestOpenWithoutAHandle(t *testing.T) {
	a, f, _ := onThree(t)
	f.library = noHandles{f.library}
	_, err := a.GetEndpoint(t.Context(), "ep")
	wantError(t, err, hns.ErrUnlisted, "Endpoint/Get", hns.KindEndpoint, "ep", 0)
	require.Equal(t, []string{"HcnOpenEndpoint ep"}, f.calls)
}

type noHandles struct{ library }

func (noHandles) open(kind, string) (handle, error) { return 0, nil }

// TestAnswersThatAreNoJSON: they are errors, as what HNS has is not known then.
func TestAnswersThatAreNoJSON(t *testing.T) {
	for _, text := range []string{"", "null,", `{"ID":7}`, `"x"`} {
		a, f, _ := onThree(t)
		f.library = odd{f.library, text}
		_, err := a.Network(t.Context())
		wantError(t, err, hns.ErrUnlisted, "Network/Get", hns.KindNetwork, "azure", 0)
		_, err = a.EndpointIDs(t.Context())
		wantError(t, err, hns.ErrUnlisted, "Endpoint/Enumerate", hns.KindNetwork, "azure", 0)
		_, err = a.GetEndpoint(t.Context(), "ep")
		wantError(t, err, hns.ErrUnlisted, "Endpoint/Get", hns.KindEndpoint, "ep", 0)
	}
}

// TestAnotherObject: what is shown for an object has to be that object, or its handle is no good: also
// one that is held is closed.
func TestAnotherObject(t *testing.T) {
	for _, text := range []string{"{}", "null", `{"ID":"other"}`} {
		a, f, s := onThree(t)
		f.library = shows{f.library, text}
		release := a.Hold(t.Context(), "ep")
		for _, id := range []string{"ep", "too"} {
			_, err := a.GetEndpoint(t.Context(), id)
			wantError(t, err, hns.ErrUnlisted, "Endpoint/Get", hns.KindEndpoint, id, 0)
			require.Zero(t, s.OpenHandles())
		}
		release()
		_, err := a.Network(t.Context())
		wantError(t, err, hns.ErrUnlisted, "Network/Get", hns.KindNetwork, "azure", 0)
	}
}

// shows gives one answer to every query.
type shows struct {
	library
	text string
}

func (s shows) query(kind, handle, string) (string, error) { return s.text, nil }

// odd gives one answer to all that is read.
type odd struct {
	library
	text string
}

func (o odd) enumerate(kind, string) (string, error)     { return o.text, nil }
func (o odd) query(kind, handle, string) (string, error) { return o.text, nil }

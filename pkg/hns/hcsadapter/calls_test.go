package hcsadapter

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/hnssim"
)

// operations are those of hns.Client, and the calls of HNS that each makes when
// the ID of the network is known.
func operations(network string) map[string]struct {
	do    func(*testing.T, *Adapter) error
	calls []string
} {
	rule := hns.ACL{ID: "azure-acl-x.web", Action: hns.Allow, Direction: hns.In, RuleType: hns.Switch, Priority: 222}
	type operation = struct {
		do    func(*testing.T, *Adapter) error
		calls []string
	}
	return map[string]operation{
		"Network": {func(t *testing.T, a *Adapter) error {
			_, err := a.Network(t.Context())
			return err
		}, readsNetwork(network)},
		"ListEndpoints": {func(t *testing.T, a *Adapter) error {
			_, err := a.ListEndpoints(t.Context())
			return err
		}, slices.Concat([]string{listState2, listState3}, reads(kindEndpoint, "ep", "other", "too"))},
		"GetEndpoint": {func(t *testing.T, a *Adapter) error {
			_, err := a.GetEndpoint(t.Context(), "ep")
			return err
		}, reads(kindEndpoint, "ep")},
		"ModifySets": {func(t *testing.T, a *Adapter) error {
			return a.ModifySets(t.Context(), hns.Update, []hns.SetPolicy{leaf})
		}, modifies(kindNetwork, network)},
		"AddACLs": {func(t *testing.T, a *Adapter) error {
			return a.AddACLs(t.Context(), "ep", []hns.ACL{rule})
		}, modifies(kindEndpoint, "ep")},
		"ReplacePolicies": {func(t *testing.T, a *Adapter) error {
			return a.ReplacePolicies(t.Context(), "ep", []hns.EndpointPolicy{hns.NewACLPolicy(rule)})
		}, modifies(kindEndpoint, "ep")},
		"Version": {func(t *testing.T, a *Adapter) error {
			_, err := a.Version(t.Context())
			return err
		}, []string{"HNSCall"}},
	}
}

// onThree returns an adapter that has read the network, with three endpoints.
func onThree(t *testing.T) (*Adapter, *faulty, *simLibrary) {
	t.Helper()
	a, f, s := onFaulty(t)
	for _, id := range []string{"other", "too"} {
		require.NoError(t, s.sim.CreateEndpoint(hnssim.NewEndpoint{ID: id}))
	}
	_, err := a.Network(t.Context())
	require.NoError(t, err)
	f.calls = nil
	return a, f, s
}

// TestCallsOfAnOperation: no call is made that is not needed, and none twice.
func TestCallsOfAnOperation(t *testing.T) {
	_, _, s := onThree(t)
	for name, op := range operations(s.id) {
		t.Run(name, func(t *testing.T) {
			a, f, _ := onThree(t)
			require.NoError(t, op.do(t, a))
			require.Equal(t, op.calls, f.calls)
			f.calls = nil
			require.NoError(t, op.do(t, a))
			require.Equal(t, op.calls, f.calls, "the second time")
		})
	}
}

// TestNothingStaysOpen: whichever call fails, in whatever way, every handle is
// closed, once, and a close that fails spoils nothing.
func TestNothingStaysOpen(t *testing.T) {
	_, _, s := onThree(t)
	for name, op := range operations(s.id) {
		for i, failing := range op.calls {
			for _, code := range []uint32{0, codeRPC, codeEndpointNotFound, codeNetworkNotFound, codeInvalidPolicy, codeElementNotFound} {
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
						err := op.do(t, a)
						require.Equal(t, failing, f.calls[i])
						require.Empty(t, s.opened, "%v", f.calls)
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
	wantError(t, err, hns.ErrUnavailable, "Endpoint/Get", hns.KindEndpoint, "ep", 0)
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
		wantError(t, err, hns.ErrUnavailable, "Network/Get", hns.KindNetwork, "azure", 0)
		_, err = a.ListEndpoints(t.Context())
		wantError(t, err, hns.ErrUnavailable, "Endpoint/List", hns.KindNetwork, "azure", 0)
		_, err = a.GetEndpoint(t.Context(), "ep")
		wantError(t, err, hns.ErrUnavailable, "Endpoint/Get", hns.KindEndpoint, "ep", 0)
		_, err = a.Version(t.Context())
		wantError(t, err, hns.ErrUnavailable, "Version/Get", hns.KindNetwork, "azure", 0)
	}
}

// TestAnotherObject: what is shown for an object has to be that object.
func TestAnotherObject(t *testing.T) {
	for _, text := range []string{"{}", "null", `{"ID":"other"}`} {
		a, f, _ := onThree(t)
		f.library = shows{f.library, text}
		_, err := a.GetEndpoint(t.Context(), "ep")
		wantError(t, err, hns.ErrUnavailable, "Endpoint/Get", hns.KindEndpoint, "ep", 0)
		_, err = a.ListEndpoints(t.Context())
		wantError(t, err, hns.ErrUnavailable, "Endpoint/List", hns.KindNetwork, "azure", 0)
		_, err = a.Network(t.Context())
		wantError(t, err, hns.ErrUnavailable, "Network/Get", hns.KindNetwork, "azure", 0)
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
func (o odd) hnsCall(_, _, _ string) (string, error)     { return o.text, nil }

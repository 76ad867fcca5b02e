package canary_test

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/canary"
	"github.com/winnpm/winnpm/pkg/hns/hnssim"
)

// odd is an HNS that does something otherwise to the canary.
type odd struct {
	*hnssim.Sim
	modify func(verb hns.Verb, do func() error) error // nil: as the simulator
	show   func(*hns.SetPolicy) bool                  // false: it is not shown
	hang   bool                                       // reads and writes of the canary
}

// ModifySets implements hns.Client.
func (o *odd) ModifySets(ctx context.Context, verb hns.Verb, sets []hns.SetPolicy) error {
	do := func() error { return o.Sim.ModifySets(ctx, verb, sets) }
	if !canary.Is(sets[0]) {
		return do()
	}
	if o.hang {
		<-ctx.Done()
		return errors.Join(hns.ErrUnavailable, context.Cause(ctx))
	}
	if o.modify != nil {
		return o.modify(verb, do)
	}
	return do()
}

// Network implements hns.Client.
func (o *odd) Network(ctx context.Context) (hns.Network, error) {
	n, err := o.Sim.Network(ctx)
	var sets []hns.SetPolicy
	for _, s := range n.Sets {
		if !canary.Is(s) || o.show == nil || o.show(&s) {
			sets = append(sets, s)
		}
	}
	n.Sets = sets
	return n, err
}

// ours is the first write of a process.
var ours = []hns.SetPolicy{{ID: "azure-npm-1", Name: "ns-x", Type: hns.IPSet, Values: []string{"10.0.0.1"}}}

// write makes first writes of a process and returns what was told.
func write(t *testing.T, o *odd) (told []canary.Result) {
	t.Helper()
	c := canary.New(o, time.Now, func(r canary.Result) { told = append(told, r) })
	_, err := c.Network(t.Context())
	require.NoError(t, err)
	require.NoError(t, c.ModifySets(t.Context(), hns.Add, ours))
	require.NoError(t, c.ModifySets(t.Context(), hns.Update, ours))
	return told
}

func newOdd() *odd { return &odd{Sim: hnssim.New(hnssim.Options{})} }

// TestCanary: it is tried once, before the first write of any kind, and goes again.
func TestCanary(t *testing.T) {
	o := newOdd()
	told := write(t, o)
	require.Len(t, told, 1)
	require.Empty(t, told[0].Otherwise)
	require.NoError(t, told[0].Unknown)
	require.False(t, told[0].Left)
	var ops []string
	for _, c := range o.Calls() {
		id := ""
		if len(c.Sets) > 0 {
			id = " " + c.Sets[0].ID
		}
		ops = append(ops, c.Op+id)
	}
	require.Equal(t, []string{
		"Network/Get", "SetPolicy/Add winnpm-canary", "Network/Get", "SetPolicy/Remove winnpm-canary",
		"SetPolicy/Add azure-npm-1", "SetPolicy/Update azure-npm-1",
	}, ops)
	require.Len(t, o.Sets(), 1)
}

// TestCanaryNeverBeforeRules: a block does not wait, and nothing comes between the read of an
// endpoint and its Update. The first write of sets after that has the canary.
func TestCanaryNeverBeforeRules(t *testing.T) {
	rule := hns.ACL{ID: "azure-acl-x", Action: hns.Block, Direction: hns.In, RuleType: hns.Switch, Priority: 3000}
	for name, write := range map[string]func(hns.Client) error{
		"add": func(c hns.Client) error { return c.AddACLs(t.Context(), "e1", []hns.ACL{rule}) },
		"replace": func(c hns.Client) error {
			return c.ReplacePolicies(t.Context(), "e1", []hns.EndpointPolicy{hns.NewACLPolicy(rule)})
		},
	} {
		o, told := newOdd(), 0
		require.NoError(t, o.CreateEndpoint(hnssim.NewEndpoint{ID: "e1", Addrs: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}))
		c := canary.New(o, time.Now, func(canary.Result) { told++ })
		require.NoError(t, write(c), name)
		require.Zero(t, told, name)
		require.Zero(t, o.Counts()["SetPolicy/Add"], name)
		require.NoError(t, c.ModifySets(t.Context(), hns.Add, ours), name)
		require.Equal(t, 1, told, name)
		require.Equal(t, 1, o.Counts()["SetPolicy/Remove"], name)
	}
}

// TestCanaryReads: who only reads tries nothing.
func TestCanaryReads(t *testing.T) {
	o := newOdd()
	c := canary.New(o, time.Now, func(canary.Result) { t.Error("told") })
	_, err := c.Network(t.Context())
	require.NoError(t, err)
	_, err = c.EndpointIDs(t.Context())
	require.NoError(t, err)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, c.ModifySets(ended, hns.Add, ours), "nor does who was told to stop")
	require.Zero(t, o.Counts()["SetPolicy/Remove"])
}

// TestCanaryRefuted: what HNS does otherwise is told, and the write is made all the same.
func TestCanaryRefuted(t *testing.T) {
	refusal := func(code uint32, class error) error {
		return &hns.OpError{Op: "SetPolicy/Add", Kind: hns.KindSet, ID: canary.ID, Code: code, Err: class}
	}
	on := func(verb hns.Verb, err error) func(hns.Verb, func() error) error {
		return func(v hns.Verb, do func() error) error {
			if v == verb {
				return err
			}
			return do()
		}
	}
	for name, tt := range map[string]struct {
		odd     odd
		want    string // refuted
		unknown bool
		left    bool
	}{
		"an add is refused":      {odd{modify: on(hns.Add, refusal(0x803b000d, hns.ErrInvalid))}, "an add of a set is refused: hns SetPolicy/Add: set winnpm-canary: invalid (0x803b000d)", false, false},
		"an unknown code":        {odd{modify: on(hns.Add, refusal(0x803b0099, hns.ErrUnlisted))}, "an add of a set is refused: ", false, false},
		"an add that is nothing": {odd{modify: on(hns.Add, nil)}, "a set that was added is not shown", false, false},
		"a remove is refused":    {odd{modify: on(hns.Remove, refusal(0x803b002c, hns.ErrInUse))}, "a remove of a set that nothing uses is refused: ", false, true},
		"HNS breaks off":         {odd{modify: on(hns.Add, refusal(0x800706ba, hns.ErrUnavailable))}, "", true, false},
		"not shown":              {odd{show: func(*hns.SetPolicy) bool { return false }}, "a set that was added is not shown", false, false},
		"values in another form": {odd{show: func(s *hns.SetPolicy) bool { s.Values[0] += "/32"; return true }}, "a set of 192.0.2.1,192.0.2.128/25 is shown with 192.0.2.1/32,192.0.2.128/25", false, false},
		"another name":           {odd{show: func(s *hns.SetPolicy) bool { s.Name = "w"; return true }}, `is shown as "w" of type IPSET`, false, false},
		"an Id in capitals":      {odd{show: func(s *hns.SetPolicy) bool { s.ID = "WINNPM-CANARY"; return true }}, `a set with the Id "winnpm-canary" is shown with "WINNPM-CANARY"`, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := tt.odd
			o.Sim = hnssim.New(hnssim.Options{})
			told := write(t, &o)
			require.Len(t, told, 1)
			if tt.want == "" {
				require.Empty(t, told[0].Otherwise)
			} else {
				require.Len(t, told[0].Otherwise, 1)
				require.Contains(t, told[0].Otherwise[0], tt.want)
			}
			require.Equal(t, tt.unknown, told[0].Unknown != nil, "%v", told[0].Unknown)
			require.Equal(t, tt.left, told[0].Left)
			there := 1 // ours
			if tt.left {
				there++
			}
			require.Len(t, o.Sets(), there)
		})
	}
}

// TestCanaryHangs: a first write waits for HNS no longer than three seconds, and no other
// one waits at all.
func TestCanaryHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOdd()
		o.hang = true
		began := time.Now()
		told := write(t, o)
		require.Equal(t, 3*time.Second, time.Since(began))
		require.ErrorContains(t, told[0].Unknown, "HNS took longer than 3s")
		require.True(t, told[0].Left)
		require.Equal(t, 3*time.Second, told[0].Took)
	})
}

// TestCanaryKilled: what a process leaves that is killed between any two calls, the next one
// takes away before its first write.
func TestCanaryKilled(t *testing.T) {
	for calls := range 3 {
		o := newOdd()
		killed := errors.New("killed")
		n := 0
		o.modify = func(_ hns.Verb, do func() error) error {
			if n++; n > calls {
				return errors.Join(hns.ErrUnavailable, killed)
			}
			return do()
		}
		dead := canary.New(o, time.Now, func(canary.Result) {})
		require.NoError(t, dead.ModifySets(t.Context(), hns.Update, ours)) // of a set that is not there: nothing
		o.modify = nil

		if calls == 1 {
			require.True(t, slices.ContainsFunc(o.Sets(), canary.Is), "killed between add and remove")
		}

		told := write(t, o)
		require.Len(t, told, 1)
		require.Empty(t, told[0].Otherwise, "killed after %d writes", calls)
		require.NoError(t, told[0].Unknown)
		require.Len(t, o.Sets(), 1)
	}
}

// TestCanaryStops: a process that is told to stop takes the set away.
func TestCanaryStops(t *testing.T) {
	o := newOdd()
	ctx, cancel := context.WithCancel(t.Context())
	o.modify = func(verb hns.Verb, do func() error) error {
		if verb == hns.Add {
			cancel()
		}
		return do()
	}
	c := canary.New(o, time.Now, func(r canary.Result) { require.NoError(t, r.Unknown) })
	require.Error(t, c.ModifySets(ctx, hns.Add, ours))
	require.Empty(t, o.Sets())
}

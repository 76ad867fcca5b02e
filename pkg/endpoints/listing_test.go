package endpoints

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/hns"
)

// testStart is when the tests of one State begin.
var testStart = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// follow stages objects, hands on what follows for endpoints, and renders them, as a
// transaction does.
func (d *Table) follow(do func(*desired.Objects)) {
	in := desired.NewObjects()
	do(&in)
	d.desired.Stage(&in, d.Clock)
	d.Render(d.desired.TakeEffects())
}

// begun returns a State in whose first transaction HNS listed these endpoints, each with an
// address and a local pod of its own, and showed them without any rule. No policy selects
// the pods, so that all is right.
func begun(t require.TestingT, ids ...string) *Table {
	return begunWith(t, func(*desired.Objects) {}, ids...)
}

// begunWith is begun with more objects than the pods.
func begunWith(t require.TestingT, more func(*desired.Objects), ids ...string) *Table {
	d := newTestEndpoints()
	d.cfg.MaxBatchedACLs = 30
	d.Clock = testStart
	d.Begin(1, testStart)
	d.follow(func(o *desired.Objects) {
		more(o)
		for i, id := range ids {
			o.SetPod(desired.Pod{Namespace: "x", Name: id, UID: types.UID(id), Addr: testAddr(i), Local: true})
		}
	})
	require.True(t, d.TakeListDue())
	d.TakeList(ids, nil)
	for i, id := range ids {
		d.TakeRead(id, hns.Endpoint{ID: id, Addrs: []netip.Addr{testAddr(i)}}, nil)
	}
	d.LookAgain()
	return d
}

func testAddr(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}) }

// TestListings: what an enumeration says of an endpoint, by what it has.
func TestListings(t *testing.T) {
	t.Parallel()
	list := func(ids ...string) func(*Table) {
		return func(d *Table) { d.TakeList(ids, nil) }
	}
	read := func(id string, err error) func(*Table) {
		return func(d *Table) { d.TakeRead(id, hns.Endpoint{ID: id, Addrs: []netip.Addr{testAddr(0)}}, err) }
	}
	readOf := func(id string, err error) func(*Table) {
		return func(d *Table) { d.TakeRead(id, hns.Endpoint{}, err) }
	}
	gone := &hns.OpError{Kind: hns.KindEndpoint, Err: hns.ErrNotFound}
	tests := map[string]struct {
		steps     []func(*Table)
		state     string // of endpoint a; "" when it is not known
		due       string // what is to be read now
		unsettled bool
		unread    string
	}{
		"shown":                      {[]func(*Table){list("a", "b")}, "known, settled", "", false, ""},
		"in the other case":          {[]func(*Table){list("A", "B")}, "known, settled", "", false, ""},
		"lacked and believed":        {[]func(*Table){list("b")}, "known, settled, lacked", "a", false, ""},
		"lacked, then shown":         {[]func(*Table){list("b"), list("a", "b")}, "known, settled", "a", false, ""},
		"lacked, then read":          {[]func(*Table){list("b"), read("a", nil)}, "known, settled, lacked", "", false, ""},
		"lacked, then not found":     {[]func(*Table){list("b"), read("a", gone)}, "", "", false, ""},
		"lacked, then any answer":    {[]func(*Table){list("b"), read("a", hns.ErrUnlisted)}, "", "", false, ""},
		"lacked, then no answer":     {[]func(*Table){list("b"), read("a", hns.ErrUnavailable)}, "known, settled, lacked", "", false, ""},
		"shown, then any answer":     {[]func(*Table){read("a", hns.ErrUnlisted)}, "known, settled", "", false, ""},
		"empty is not believed":      {[]func(*Table){list()}, "known, settled", "", true, ""},
		"missed, then shown":         {[]func(*Table){list(), list("a", "b")}, "known, settled", "a b", false, ""},
		"missed, then lacked":        {[]func(*Table){list(), list("b")}, "known, settled, lacked", "a b", false, ""},
		"missed, then any answer":    {[]func(*Table){list(), read("a", hns.ErrUnlisted)}, "known, settled", "", true, ""},
		"empty once no pod is left":  {[]func(*Table){noPods, list()}, "known, settled, lacked", "a b", false, ""},
		"a new one":                  {[]func(*Table){list("a", "b", "c")}, "known, settled", "c", false, "c"},
		"another GUID":               {[]func(*Table){list("a2", "b"), read("a", gone)}, "", "a2", false, "a2"},
		"a new one that went again":  {[]func(*Table){list("a", "b", "c"), list("a", "b")}, "known, settled", "c", false, "c"},
		"a new one that is gone":     {[]func(*Table){list("a", "b", "c"), list("a", "b"), readOf("c", gone)}, "known, settled", "", false, ""},
		"a new one that is lacked":   {[]func(*Table){list("a", "b", "c"), list("a", "b"), readOf("c", hns.ErrUnlisted)}, "known, settled", "", false, "c"},
		"an enumeration that failed": {[]func(*Table){func(d *Table) { d.TakeList(nil, hns.ErrUnavailable) }}, "known, settled", "", false, ""},
		"elsewhere is no more ours":  {[]func(*Table){read("a", hns.ErrElsewhere), list("a", "b")}, "", "", false, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := begun(t, "a", "b")
			for _, step := range tt.steps {
				step(d)
			}
			is := ""
			if ep := d.Endpoint("a"); ep != nil {
				is = ep.state.String()
				if ep.state.lacked {
					is += ", lacked"
				}
			}
			require.Equal(t, tt.state, is)
			due := d.Singles(d.now)
			slices.Sort(due)
			require.Equal(t, tt.due, strings.Join(due, " "))
			require.Equal(t, tt.unsettled, d.listing.unsettled)
			var unread []string
			for id := range d.unread {
				unread = append(unread, id)
			}
			require.Equal(t, tt.unread, strings.Join(unread, " "))
		})
	}
}

// noPods has all pods of begun end, without what that asks of their endpoints.
func noPods(d *Table) {
	in := desired.NewObjects()
	for _, id := range []string{"a", "b"} {
		in.DeletePod(desired.PodKey{Namespace: "x", Name: id})
	}
	d.desired.Stage(&in, d.Clock)
}

//go:build linux

package agent

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
)

// An endpoint that is made anew, with another GUID, for a pod that knows nothing
// of it, is closed within seconds.
func TestAnswer_EndpointMadeAnew(t *testing.T) {
	begin(t)
	h, w, _ := openShop(t, "--reconcile-interval", never)
	h.unplug(dbAddr)
	h.plug(dbAddr)
	began := time.Now()
	eventually(t, atOnce, func() string { return h.denies(h.incoming(stranger, dbPod, 80)) })
	t.Logf("closed after %v", time.Since(began).Round(time.Millisecond))
	h.waitVerdicts(w.kube, ownAddr)
}

// What HNS loses without another process, or another hand takes, is back within
// the minute: the rules of an endpoint and a set, then everything.
func TestAnswer_SilentLoss(t *testing.T) {
	begin(t)
	h, _, n := openShop(t, "--reconcile-interval", never)
	before := h.state()
	for _, lost := range []struct {
		what string
		lose func()
	}{
		{"the rules of an endpoint and a set", func() {
			_, theirs := h.endpoint(dbAddr)
			require.NoError(t, h.Sim().SetPolicies(h.endpoints[dbAddr], theirs))
			sets := h.Sim().Sets()
			i := slices.IndexFunc(sets, func(s hns.SetPolicy) bool { return s.Type == hns.IPSet && len(s.Values) > 0 })
			require.NoError(t, h.Sim().DropSet(sets[i].ID))
		}},
		{"everything", func() { h.Sim().Restart(true) }},
	} {
		lost.lose()
		require.NotEmpty(t, difference(before, h.state()))
		began := time.Now()
		eventually(t, aMinute, func() string { return difference(before, h.state()) })
		t.Logf("%s: back after %v", lost.what, time.Since(began).Round(100*time.Millisecond))
	}
	n.waitReady()
}

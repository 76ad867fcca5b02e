package hcsadapter

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
)

const (
	openEp   = "HcnOpenEndpoint ep"
	queryEp  = "HcnQueryEndpointProperties ep"
	modifyEp = "HcnModifyEndpoint ep"
	closeEp  = "HcnCloseEndpoint ep"
)

var webRule = hns.ACL{ID: "azure-acl-x.web", Action: hns.Allow, Direction: hns.In, RuleType: hns.Switch, Priority: 222}

// TestHold: the first call opens, and the release closes.
func TestHold(t *testing.T) {
	a, f, s := onThree(t)
	release := a.Hold(t.Context(), "ep")
	require.Empty(t, f.calls)
	for range 2 {
		_, err := a.GetEndpoint(t.Context(), "ep")
		require.NoError(t, err)
	}
	_, err := a.GetEndpoint(t.Context(), "too")
	require.NoError(t, err)
	require.Equal(t, slices.Concat([]string{openEp, queryEp, queryEp}, reads(kindEndpoint, "too")), f.calls, "others are opened as always")
	require.Len(t, s.opened, 1)
	release()
	require.Equal(t, closeEp, f.calls[len(f.calls)-1])
	require.Empty(t, s.opened)

	f.calls = nil
	_, err = a.GetEndpoint(t.Context(), "ep")
	require.NoError(t, err)
	require.Equal(t, reads(kindEndpoint, "ep"), f.calls, "it is held no more")
	a.Hold(t.Context(), "EP")()
}

// TestHoldSeesWhatChanged: what others did meanwhile is read, the handle
// notwithstanding.
func TestHoldSeesWhatChanged(t *testing.T) {
	a, f, s := onThree(t)
	defer a.Hold(t.Context(), "ep")()
	_, err := a.GetEndpoint(t.Context(), "ep")
	require.NoError(t, err)
	require.NoError(t, s.sim.DeleteEndpoint("ep"))
	_, err = a.GetEndpoint(t.Context(), "ep")
	wantError(t, err, hns.ErrNotFound, "Endpoint/Get", hns.KindEndpoint, "ep", codeEndpointNotFound)
	require.Equal(t, []string{openEp, queryEp, queryEp, closeEp, listEp}, f.calls)
	err = a.AddACLs(t.Context(), "ep", []hns.ACL{webRule})
	wantError(t, err, hns.ErrNotFound, "ACL/Add", hns.KindEndpoint, "ep", codeEndpointNotFound)
}

// TestHoldAfterAnError: a handle of which a use failed is not used again.
func TestHoldAfterAnError(t *testing.T) {
	for _, code := range []uint32{0, codeUnloaded, codeInvalidPolicy, codeRPC, codeFail} {
		a, f, s := onThree(t)
		f.before = failing("HcnModifyEndpoint", code, 1)
		release := a.Hold(t.Context(), "ep")
		_, err := a.GetEndpoint(t.Context(), "ep")
		require.NoError(t, err)
		require.Error(t, a.AddACLs(t.Context(), "ep", []hns.ACL{webRule}))
		require.Empty(t, s.opened)
		require.NoError(t, a.AddACLs(t.Context(), "ep", []hns.ACL{webRule}))
		_, err = a.GetEndpoint(t.Context(), "ep")
		require.NoError(t, err)
		release()
		require.Equal(t, []string{openEp, queryEp, modifyEp, closeEp, openEp, modifyEp, queryEp, closeEp}, f.calls)
	}
}

// TestHoldOfAnother: what is shown for an object has to be that object, or its
// handle is no good.
func TestHoldOfAnother(t *testing.T) {
	a, f, s := onThree(t)
	defer a.Hold(t.Context(), "ep")()
	f.library = shows{s, `{"ID":"other"}`}
	_, err := a.GetEndpoint(t.Context(), "ep")
	wantError(t, err, hns.ErrUnlisted, "Endpoint/Get", hns.KindEndpoint, "ep", 0)
	require.Empty(t, s.opened)
}

func TestHoldTwice(t *testing.T) {
	a, _, _ := onThree(t)
	release := a.Hold(t.Context(), "ep")
	require.PanicsWithValue(t, "BUG: endpoint EP is held twice", func() { a.Hold(t.Context(), "EP") })
	a.Hold(t.Context(), "other")()
	release()
	a.Hold(t.Context(), "EP")()
}

// TestReleaseWhileHung: nobody waits for the close of a handle of which a call
// hangs. It is done when HNS is back, before anything else, and once.
func TestReleaseWhileHung(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, s := onSim(t, Options{Deadline: time.Minute})
		f := newFaulty(s)
		a.service = service{f}
		require.NoError(t, s.sim.CreateEndpoint(newEndpoint("ep")))
		_, err := a.Network(t.Context())
		require.NoError(t, err)
		back := make(chan struct{})
		f.before = func(call string) error {
			if strings.HasPrefix(call, "HcnModify") {
				<-back
			}
			return nil
		}
		f.calls = nil
		release := a.Hold(t.Context(), "ep")
		_, err = a.GetEndpoint(t.Context(), "ep")
		require.NoError(t, err)
		err = a.AddACLs(t.Context(), "ep", []hns.ACL{webRule})
		wantError(t, err, hns.ErrUnavailable, "ACL/Add", hns.KindEndpoint, "ep", 0)
		start := time.Now()
		release()
		require.Zero(t, time.Since(start))
		a.Hold(t.Context(), "ep")()
		close(back)
		synctest.Wait()
		require.Equal(t, []string{openEp, queryEp, modifyEp, closeEp}, f.calls)
		require.Empty(t, s.opened)
		_, err = a.GetEndpoint(t.Context(), "ep")
		require.NoError(t, err)
		require.Empty(t, f.misuses)
	})
}

// TestReleaseInAHurry: who gave up in the middle of a call does not wait for the
// close either, which comes after that call.
func TestReleaseInAHurry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, s := onSim(t, Options{})
		f := newFaulty(s)
		a.service = service{f}
		require.NoError(t, s.sim.CreateEndpoint(newEndpoint("ep")))
		f.before = func(call string) error {
			if strings.HasPrefix(call, "HcnModify") {
				time.Sleep(time.Minute)
			}
			return nil
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		release := a.Hold(ctx, "ep")
		err := a.AddACLs(ctx, "ep", []hns.ACL{webRule})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		release()
		require.Equal(t, time.Second, time.Since(start))

		_, err = a.GetEndpoint(t.Context(), "ep")
		require.NoError(t, err)
		require.Equal(t, time.Minute, time.Since(start))
		require.Equal(t, slices.Concat([]string{openEp, modifyEp}, []string{closeEp}, reads(kindEndpoint, "ep"), readsNetwork(s.id)), f.calls)
		require.Empty(t, f.misuses)
	})
}

// TestReleaseWaits: who is in no hurry finds the handle closed, whatever is done
// meanwhile.
func TestReleaseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, s := onSim(t, Options{})
		f := newFaulty(s)
		a.service = service{f}
		require.NoError(t, s.sim.CreateEndpoint(newEndpoint("ep")))
		release := a.Hold(t.Context(), "ep")
		_, err := a.GetEndpoint(t.Context(), "ep")
		require.NoError(t, err)
		done := 0
		start := time.Now()
		first := began(t.Context(), a.worker, "x", slow(time.Second, &done))
		second := began(t.Context(), a.worker, "x", slow(time.Second, &done))
		a.Hold(t.Context(), "other")()
		require.Zero(t, time.Since(start), "nothing was opened")
		release()
		require.Empty(t, s.opened)
		require.LessOrEqual(t, time.Since(start), 2*time.Second, "no later than what waits already")
		require.NoError(t, <-first)
		require.NoError(t, <-second)
	})
}

// TestReleaseAfterClose: it returns, and leaves nothing that runs.
func TestReleaseAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &simLibrary{opened: map[handle]string{}}
		a := newAdapter(Options{Network: "azure"}, l)
		release := a.Hold(t.Context(), "ep")
		a.Close()
		synctest.Wait()
		release()
	})
}

// TestCloseDoesWhatIsLeft: what was left before the end is closed.
func TestCloseDoesWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker(time.Minute)
		done, left := 0, 0
		first := began(t.Context(), w, "x", slow(time.Second, &done))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		w.runNext(ctx, job{"y", func() { left++ }})
		w.runNext(ctx, job{"y", func() { left++ }})
		w.shut()
		require.NoError(t, <-first)
		synctest.Wait()
		require.Equal(t, 2, left)
	})
}

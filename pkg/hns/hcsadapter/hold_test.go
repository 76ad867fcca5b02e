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
	"github.com/winnpm/winnpm/test/windows/hnsd"
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
		getEndpoint(t, a, "ep")
	}
	getEndpoint(t, a, "too")
	require.Equal(t, slices.Concat([]string{openEp, queryEp, queryEp}, reads(kindEndpoint, "too")), f.calls, "others are opened as always")
	require.Equal(t, 1, s.OpenHandles())
	release()
	require.Equal(t, closeEp, f.calls[len(f.calls)-1])
	require.Zero(t, s.OpenHandles())

	f.calls = nil
	getEndpoint(t, a, "ep")
	require.Equal(t, reads(kindEndpoint, "ep"), f.calls, "it is held no more")
	a.Hold(t.Context(), "EP")()
}

// TestHoldSeesWhatChanged: what others did meanwhile is read, the handle
// notwithstanding.
func TestHoldSeesWhatChanged(t *testing.T) {
	a, f, s := onThree(t)
	defer a.Hold(t.Context(), "ep")()
	getEndpoint(t, a, "ep")
	s.deleteEndpoint(t, "ep")
	_, err := a.GetEndpoint(t.Context(), "ep")
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
		getEndpoint(t, a, "ep")
		require.Error(t, a.AddACLs(t.Context(), "ep", []hns.ACL{webRule}))
		require.Zero(t, s.OpenHandles())
		require.NoError(t, a.AddACLs(t.Context(), "ep", []hns.ACL{webRule}))
		getEndpoint(t, a, "ep")
		release()
		require.Equal(t, []string{openEp, queryEp, modifyEp, closeEp, openEp, modifyEp, queryEp, closeEp}, f.calls)
	}
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
		require.NoError(t, s.AddEndpoint(newEndpoint("ep")))
		getNetwork(t, a)
		back := make(chan struct{})
		f.before = func(call string) error {
			if strings.HasPrefix(call, "HcnModify") {
				<-back
			}
			return nil
		}
		f.calls = nil
		release := a.Hold(t.Context(), "ep")
		getEndpoint(t, a, "ep")
		err := a.AddACLs(t.Context(), "ep", []hns.ACL{webRule})
		wantError(t, err, hns.ErrUnavailable, "ACL/Add", hns.KindEndpoint, "ep", 0)
		start := time.Now()
		release()
		require.Zero(t, time.Since(start))
		a.Hold(t.Context(), "ep")()
		close(back)
		synctest.Wait()
		require.Equal(t, []string{openEp, queryEp, modifyEp, closeEp}, f.calls)
		require.Zero(t, s.OpenHandles())
		getEndpoint(t, a, "ep")
		require.Empty(t, f.misuses)
	})
}

// TestReleaseInAHurry: who gave up in the middle of a call does not wait for the
// close either, which comes after that call.
func TestReleaseInAHurry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, f, s := onFaulty(t)
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

		getEndpoint(t, a, "ep")
		require.Equal(t, time.Minute, time.Since(start))
		require.Equal(t, slices.Concat([]string{openEp, modifyEp}, []string{closeEp}, reads(kindEndpoint, "ep"), readsNetwork(s.id)), f.calls)
		require.Empty(t, f.misuses)
	})
}

// TestReleaseWaits: who is in no hurry finds the handle closed, whatever is done
// meanwhile.
func TestReleaseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _, s := onFaulty(t)
		release := a.Hold(t.Context(), "ep")
		getEndpoint(t, a, "ep")
		done := 0
		start := time.Now()
		first := began(t.Context(), a.worker, "x", slow(time.Second, &done))
		second := began(t.Context(), a.worker, "x", slow(time.Second, &done))
		a.Hold(t.Context(), "other")()
		require.Zero(t, time.Since(start), "nothing was opened")
		release()
		require.Zero(t, s.OpenHandles())
		require.LessOrEqual(t, time.Since(start), 2*time.Second, "no later than what waits already")
		require.NoError(t, <-first)
		require.NoError(t, <-second)
	})
}

// TestReleaseAfterClose: it returns, and leaves nothing that runs.
func TestReleaseAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newSimNode(t, hnsd.Options{})
		a := newAdapter(Options{Network: "azure"}, l)
		release := a.Hold(t.Context(), "ep")
		a.Close()
		synctest.Wait()
		release()
	})
}

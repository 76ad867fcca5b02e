package hnsd

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
)

// TestRefuse: what matches is refused by its content, as often as it comes, until
// that is lifted.
func TestRefuse(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	bad := func(text string) func(string) bool {
		return func(request string) bool { return strings.Contains(request, text) }
	}
	const prefix, failure = 0x803B0030, codeFail
	liftPrefix := b.Refuse(bad("azure-npm-bad"), prefix)
	lift := b.Refuse(bad("azure-npm-"), failure)
	lift()
	for range 3 {
		b.c.refused(prefix, "HcnModifyNetwork", b.addSet("azure-npm-bad"))
	}
	require.Empty(t, b.Sim().Sets())
	b.c.do("HcnModifyNetwork", b.addSet("azure-npm-good"))

	liftACL := b.Refuse(bad(`"Action":"Block"`), failure)
	rule := hns.ACL{ID: "azure-acl-x", Action: hns.Block, Direction: hns.In, RuleType: hns.Switch, Priority: 3000}
	add := request{handle: b.endpoint, text: [2]string{modify(hns.Add, hns.NewACLPolicy(rule))}}
	b.c.refused(failure, "HcnModifyEndpoint", add)
	b.c.do("HcnQueryEndpointProperties", request{handle: b.endpoint, text: [2]string{allQuery}})
	liftACL()
	liftPrefix()
	b.c.do("HcnModifyEndpoint", add)
	b.c.do("HcnModifyNetwork", b.addSet("azure-npm-bad"))
}

// TestTakeOnce: as told, an address is one endpoint's. At first two may have it.
func TestTakeOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	made := func(addr string) request {
		return request{handle: b.network, text: [2]string{`{"IpConfigurations":[{"IpAddress":"` + addr + `","PrefixLength":16}]}`}}
	}
	const free, other = "10.0.0.77", "10.0.0.78"
	b.c.do("HcnCreateEndpoint", made(free))
	b.c.do("HcnCreateEndpoint", made(free))
	b.TakeOnce()
	b.c.refused(codeAddressInvalid, "HcnCreateEndpoint", made(free))
	b.c.do("HcnCreateEndpoint", made(other))
	b.c.refused(codeAddressInvalid, "HcnCreateEndpoint", made(other))
}

// TestShow: what a query returns is spelt as it is told, and nothing else.
func TestShow(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Show(func(kind, properties string) string {
		return strings.Replace(properties, "{", `{"Kind":"`+kind+`",`, 1)
	})
	var shown struct{ Kind string }
	b.c.query("Network", b.network, &shown)
	require.Equal(t, "network", shown.Kind)
	b.c.query("Endpoint", b.endpoint, &shown)
	require.Equal(t, "endpoint", shown.Kind)
	require.Len(t, b.c.ids("HcnEnumerateEndpoints", allQuery), 1)
	b.c.refused(codeInvalidHandle, "HcnQueryEndpointProperties", request{text: [2]string{allQuery}})
	b.Show(nil)
	shown.Kind = ""
	b.c.query("Endpoint", b.endpoint, &shown)
	require.Empty(t, shown.Kind)
}

// TestFaultOfAnObject: one endpoint answers with an error, by whichever call, and
// the others as always.
func TestFaultOfAnObject(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	other := pod(t, b.Server)
	const unloaded = 0x803B0031
	b.Inject(Fault{Object: strings.ToLower(b.pod.String()), Times: -1, Code: unloaded})
	query := request{handle: b.endpoint, text: [2]string{allQuery}}
	for range 2 {
		for proc, r := range map[string]request{"HcnOpenEndpoint": {id: b.pod}, "HcnQueryEndpointProperties": query, "HcnModifyEndpoint": query} {
			require.EqualValues(t, unloaded, b.c.call(proc, r).code, proc)
		}
		require.Len(t, b.c.ids("HcnEnumerateEndpoints", allQuery), 2)
		var shown struct{ ID string }
		b.c.query("Endpoint", b.c.open("Endpoint", other), &shown)
		require.Equal(t, other.String(), shown.ID)
		b.c.query("Network", b.network, &shown)
	}
}

// TestEndDuringLatency: a call that takes its time, and one that waits for it, end
// with the server.
func TestEndDuringLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{})
		s.SetLatency(time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		ended := make(chan error)
		for range 2 {
			go func() {
				_, err := s.answer(ctx, request{op: opOf("HcnEnumerateEndpoints"), text: [2]string{allQuery}})
				ended <- err
			}()
		}
		for range 2 {
			require.ErrorIs(t, <-ended, context.DeadlineExceeded)
		}
		require.Equal(t, time.Minute, time.Since(start))
	})
}

// TestLatency: each call takes its time, one after the other, whoever makes it.
// What nobody counts takes none.
func TestLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{})
		s.SetLatency(10 * time.Millisecond)
		start := time.Now()
		done := make(chan reply)
		for pid := range uint32(3) {
			go func() {
				a, err := s.answer(t.Context(), request{op: opOf("HcnEnumerateEndpoints"), pid: pid, text: [2]string{allQuery}})
				require.NoError(t, err)
				done <- a
			}()
		}
		for i := range time.Duration(3) {
			require.Zero(t, (<-done).code)
			require.Equal(t, (i+1)*10*time.Millisecond, time.Since(start))
		}
		_, err := s.answer(t.Context(), request{op: opOf(callHNS), text: [2]string{"GET " + SpentPath}})
		require.NoError(t, err)
		s.SetLatency(0)
		_, err = s.answer(t.Context(), request{op: opOf("HcnEnumerateEndpoints"), text: [2]string{allQuery}})
		require.NoError(t, err)
		require.Equal(t, 30*time.Millisecond, time.Since(start))
	})
}

package sockets

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/winnpm/winnpm/pkg/doctor"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// compartments are loopback addresses that play endpoints, and who is where.
type compartments struct {
	mu     sync.Mutex
	inside map[uint32]int
	ever   map[uint32]int
	err    error
}

func (c *compartments) enter(n uint32) (func() error, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return nil, c.err
	}
	c.inside[n]++
	c.ever[n]++
	return func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.inside[n]--
		return nil
	}, nil
}

// newWire returns a wire that does not wait long.
func newWire() (*Wire, *compartments) {
	c := &compartments{inside: map[uint32]int{}, ever: map[uint32]int{}}
	w := New(c.enter, time.Now)
	w.send, w.ask, w.bind = 200*time.Millisecond, 200*time.Millisecond, 0
	return w, c
}

var (
	pod    = doctor.Place{Compartment: 2, Addr: netip.MustParseAddr("127.0.0.1")}
	friend = doctor.Place{Compartment: 3, Addr: netip.MustParseAddr("127.0.0.2")}
)

// freePort is one at which nobody listens.
func freePort(t *testing.T) uint16 {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return uint16(l.Addr().(*net.TCPAddr).Port)
}

// TestSend: what is answered passes, and what nobody listens for is reset, with both
// protocols; each socket is made in the compartment of its place.
func TestSend(t *testing.T) {
	w, c := newWire()
	port := freePort(t)
	server, err := w.Serve(t.Context(), pod, []uint16{port})
	require.NoError(t, err)
	for _, protocol := range []uint8{6, 17} {
		fate, err := w.Send(t.Context(), doctor.Flow{From: friend, To: pod, Protocol: protocol, Port: port})
		require.NoError(t, err)
		require.Equal(t, doctor.Passed, fate)
	}
	require.Equal(t, map[uint32]int{2: 1, 3: 0}, c.inside, "who accepts stays there")
	require.NoError(t, server.Close())
	require.Equal(t, map[uint32]int{2: 0, 3: 0}, c.inside)
	require.Equal(t, map[uint32]int{2: 2, 3: 2}, c.ever)
	for _, protocol := range []uint8{6, 17} {
		fate, err := w.Send(t.Context(), doctor.Flow{From: friend, To: pod, Protocol: protocol, Port: port})
		require.NoError(t, err)
		require.Equal(t, doctor.Reset, fate, "protocol %d", protocol)
	}
	_, err = w.Send(t.Context(), doctor.Flow{From: friend, To: pod, Protocol: 132, Port: port})
	require.ErrorContains(t, err, "protocol 132")
}

// TestDropped: without an answer a packet is dropped, and a call is over when its context is.
func TestDropped(t *testing.T) {
	w, _ := newWire()
	silent, err := net.Listen("tcp4", "127.0.0.1:0") // whose connections nobody takes
	require.NoError(t, err)
	defer silent.Close()
	port := uint16(silent.Addr().(*net.TCPAddr).Port)
	mute, err := net.ListenPacket("udp4", silent.Addr().String())
	require.NoError(t, err)
	defer mute.Close()
	for _, protocol := range []uint8{6, 17} {
		f := doctor.Flow{From: friend, To: pod, Protocol: protocol, Port: port}
		fate, err := w.Send(t.Context(), f)
		require.NoError(t, err)
		require.Equal(t, doctor.Dropped, fate, "protocol %d", protocol)

		over := errors.New("it is over")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(over)
		_, err = w.Send(ctx, f)
		require.ErrorIs(t, err, over)
	}
	n := 0
	require.NoError(t, mute.SetReadDeadline(time.Now().Add(time.Second)))
	for line := make([]byte, 100); n < 5; n++ {
		_, _, err := mute.ReadFrom(line)
		require.NoError(t, err, "a datagram is sent again and again")
	}
}

// TestConversation: an open connection is asked again and again, until it is cut.
func TestConversation(t *testing.T) {
	w, _ := newWire()
	port := freePort(t)
	server, err := w.Serve(t.Context(), pod, []uint16{port})
	require.NoError(t, err)
	c, fate, err := w.Open(t.Context(), doctor.Flow{From: friend, To: pod, Protocol: 6, Port: port})
	require.NoError(t, err)
	require.Equal(t, doctor.Passed, fate)
	for range 3 {
		fate, err = c.Ask(t.Context())
		require.NoError(t, err)
		require.Equal(t, doctor.Passed, fate)
	}
	require.NoError(t, server.Close())
	fate, err = c.Ask(t.Context())
	require.NoError(t, err)
	require.Equal(t, doctor.Reset, fate)
	require.NoError(t, c.Close())
}

// TestNoCompartment: a wire that cannot get into a compartment says so; so does a server whose
// address is not there.
func TestNoCompartment(t *testing.T) {
	w, c := newWire()
	_, err := w.Serve(t.Context(), doctor.Place{Compartment: 4, Addr: netip.MustParseAddr("192.0.2.1")}, []uint16{freePort(t)})
	require.ErrorContains(t, err, "192.0.2.1")
	require.Equal(t, map[uint32]int{4: 0}, c.inside)
	c.err = errors.New("no such compartment")
	_, err = w.Serve(t.Context(), pod, []uint16{freePort(t)})
	require.ErrorContains(t, err, "compartment 2: no such compartment")
	_, err = w.Send(t.Context(), doctor.Flow{From: friend, To: pod, Protocol: 6, Port: 1})
	require.ErrorContains(t, err, "compartment 3: no such compartment")
}

// TestServerFull: a server takes no more connections than it has room for.
func TestServerFull(t *testing.T) {
	w, _ := newWire()
	port := freePort(t)
	server, err := w.Serve(t.Context(), pod, []uint16{port})
	require.NoError(t, err)
	defer server.Close()
	f := doctor.Flow{From: friend, To: pod, Protocol: 6, Port: port}
	for range mostConns {
		c, fate, err := w.Open(t.Context(), f)
		require.NoError(t, err)
		require.Equal(t, doctor.Passed, fate)
		defer c.Close()
	}
	fate, err := w.Send(t.Context(), f)
	require.NoError(t, err)
	require.Equal(t, doctor.Reset, fate)
}

// Package sockets sends the doctor's packets: ordinary sockets, each in the compartment of the
// endpoint that it belongs to. A socket is in the compartment of the thread that makes it.
package sockets

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/winnpm/winnpm/pkg/doctor"
)

// Enter puts the calling thread into a compartment; back puts it where it was.
type Enter func(compartment uint32) (back func() error, err error)

// Waits of a wire.
const (
	sendWait  = time.Second           // for an answer to a first packet
	askWait   = 5 * time.Second       // on an open connection, where packets are sent again
	udpAgain  = 10 * time.Millisecond // between two datagrams of one try
	bindWait  = 30 * time.Second      // until an address is there after its endpoint is attached
	bindAgain = 500 * time.Millisecond
	idle      = time.Minute // after which a server hangs up
)

// mostFailures is after how many datagrams in a row that could not be read a server gives up.
const mostFailures = 1000

// mostConns is how many connections a server has at most; the doctor makes a few dozen.
const mostConns = 256

// Wire implements doctor.Wire.
type Wire struct {
	enter Enter
	now   func() time.Time
	send  time.Duration // sendWait, but in tests
	ask   time.Duration
	bind  time.Duration
}

// New returns a wire.
func New(enter Enter, now func() time.Time) *Wire {
	return &Wire{enter: enter, now: now, send: sendWait, ask: askWait, bind: bindWait}
}

// inside does something on a thread of a compartment. When the thread cannot be put back, it
// ends with its goroutine.
func (w *Wire) inside(compartment uint32, do func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		back, err := w.enter(compartment)
		if err != nil {
			runtime.UnlockOSThread()
			result <- fmt.Errorf("compartment %d: %w", compartment, err)
			return
		}
		err = do()
		if back() == nil {
			runtime.UnlockOSThread()
		}
		result <- err
	}()
	return <-result
}

func at(p doctor.Place, port uint16) netip.AddrPort { return netip.AddrPortFrom(p.Addr, port) }

// dial connects from one place to another one.
func (w *Wire) dial(ctx context.Context, network string, f doctor.Flow) (conn net.Conn, err error) {
	ctx, cancel := context.WithTimeout(ctx, w.send)
	defer cancel()
	err = w.inside(f.From.Compartment, func() error {
		d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(at(f.From, 0))}
		if network == "udp4" {
			d.LocalAddr = net.UDPAddrFromAddrPort(at(f.From, 0))
		}
		conn, err = d.DialContext(ctx, network, at(f.To, f.Port).String())
		return err
	})
	return conn, err
}

// Send implements doctor.Wire.
func (w *Wire) Send(ctx context.Context, f doctor.Flow) (doctor.Fate, error) {
	switch f.Protocol {
	case 6:
		c, fate, err := w.Open(ctx, f)
		if c != nil {
			_ = c.Close() // it has passed
		}
		return fate, err
	case 17:
		return w.datagram(ctx, f)
	}
	return "", fmt.Errorf("protocol %d has no sockets here", f.Protocol)
}

// datagram sends again and again, until something comes back or the time is over.
func (w *Wire) datagram(ctx context.Context, f doctor.Flow) (doctor.Fate, error) {
	conn, err := w.dial(ctx, "udp4", f)
	if err != nil {
		return fateOf(ctx, err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	answer := make([]byte, len(hello))
	for until := w.now().Add(w.send); w.now().Before(until); {
		if _, err := io.WriteString(conn, hello); err != nil {
			return fateOf(ctx, err)
		}
		if err := conn.SetReadDeadline(w.now().Add(udpAgain)); err != nil {
			return fateOf(ctx, err)
		}
		_, err := conn.Read(answer)
		if err == nil {
			return doctor.Passed, nil
		}
		if fate, err := fateOf(ctx, err); fate != doctor.Dropped {
			return fate, err
		}
	}
	return doctor.Dropped, nil
}

// hello is what is sent, and comes back.
const hello = "winnpm-doctor\n"

// Open implements doctor.Wire.
func (w *Wire) Open(ctx context.Context, f doctor.Flow) (doctor.Conversation, doctor.Fate, error) {
	conn, err := w.dial(ctx, "tcp4", f)
	if err != nil {
		fate, err := fateOf(ctx, err)
		return nil, fate, err
	}
	c := &conversation{wire: w, conn: conn, in: bufio.NewReader(conn)}
	fate, err := c.within(ctx, w.send)
	if fate != doctor.Passed {
		_ = conn.Close() // it says nothing
		return nil, fate, err
	}
	return c, doctor.Passed, nil
}

// conversation is an open connection.
type conversation struct {
	wire *Wire
	conn net.Conn
	in   *bufio.Reader
}

// Ask implements doctor.Conversation.
func (c *conversation) Ask(ctx context.Context) (doctor.Fate, error) {
	return c.within(ctx, c.wire.ask)
}

func (c *conversation) within(ctx context.Context, wait time.Duration) (doctor.Fate, error) {
	defer context.AfterFunc(ctx, func() { c.conn.Close() })()
	err := c.conn.SetDeadline(c.wire.now().Add(wait))
	if err == nil {
		_, err = io.WriteString(c.conn, hello)
	}
	if err == nil {
		_, err = c.in.ReadString('\n')
	}
	if err != nil {
		return fateOf(ctx, err)
	}
	return doctor.Passed, nil
}

// Close implements doctor.Conversation.
func (c *conversation) Close() error { return c.conn.Close() }

// fateOf says what an error of a socket means for the packets.
func fateOf(ctx context.Context, err error) (doctor.Fate, error) {
	is := func(target error) bool { return errors.Is(err, target) }
	var late net.Error
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case slices.ContainsFunc(saysNo, is), is(io.EOF):
		return doctor.Reset, nil
	case slices.ContainsFunc(nowhere, is), errors.As(err, &late) && late.Timeout():
		return doctor.Dropped, nil
	}
	return "", err
}

// server answers at a place.
type server struct {
	wire    *Wire
	closers []io.Closer // of what listens
	running sync.WaitGroup

	mu    sync.Mutex // guards following
	done  bool
	conns map[net.Conn]bool
}

// Serve implements doctor.Wire.
func (w *Wire) Serve(ctx context.Context, place doctor.Place, ports []uint16) (io.Closer, error) {
	s := &server{wire: w, conns: map[net.Conn]bool{}}
	until := w.now().Add(w.bind)
	for _, port := range ports {
		for {
			err := s.listen(ctx, place, port)
			if err == nil {
				break
			}
			if w.now().After(until) || ctx.Err() != nil {
				_ = s.Close() // it has failed
				return nil, err
			}
			wait(ctx, bindAgain) // the address may not be there yet
		}
	}
	return s, nil
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// listen listens at one port with both protocols.
func (s *server) listen(ctx context.Context, place doctor.Place, port uint16) error {
	var tcp net.Listener
	var udp net.PacketConn
	var config net.ListenConfig
	err := s.wire.inside(place.Compartment, func() (err error) {
		if tcp, err = config.Listen(ctx, "tcp4", at(place, port).String()); err != nil {
			return err
		}
		if udp, err = config.ListenPacket(ctx, "udp4", at(place, port).String()); err != nil {
			_ = tcp.Close() // both or none
		}
		return err
	})
	if err != nil {
		return err
	}
	s.closers = append(s.closers, tcp, udp)
	s.running.Go(func() {
		// Windows makes the socket of a connection when it waits for one, on this thread.
		_ = s.wire.inside(place.Compartment, func() error { s.accept(tcp); return nil }) // who sends sees it
	})
	s.running.Go(func() { s.echo(udp) })
	return nil
}

// accept ends with the listener.
func (s *server) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		if !s.take(conn) {
			_ = conn.Close() // nobody waits for an answer any more
			continue
		}
		s.running.Go(func() { s.converse(conn) })
	}
}

// take remembers a connection; false: there are too many, or the server is closed.
func (s *server) take(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done || len(s.conns) == mostConns {
		return false
	}
	s.conns[conn] = true
	return true
}

// converse sends back what comes, line by line.
func (s *server) converse(conn net.Conn) {
	defer func() {
		_ = conn.Close()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.conns, conn)
	}()
	line := make([]byte, len(hello))
	for {
		if conn.SetDeadline(s.wire.now().Add(idle)) != nil {
			return
		}
		if _, err := io.ReadFull(conn, line); err != nil {
			return
		}
		if _, err := conn.Write(line); err != nil {
			return
		}
	}
}

// echo ends with its socket. An error may be about somebody who has gone.
func (s *server) echo(conn net.PacketConn) {
	line := make([]byte, len(hello))
	for failed := 0; failed < mostFailures; failed++ {
		n, from, err := conn.ReadFrom(line)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil && string(line[:n]) == hello {
			_, _ = conn.WriteTo(line[:n], from) // who waits sends again
			failed = -1
		}
	}
}

// Close implements io.Closer.
func (s *server) Close() error {
	s.mu.Lock()
	s.done = true
	for conn := range s.conns {
		_ = conn.Close()
	}
	s.mu.Unlock()
	for _, c := range s.closers {
		_ = c.Close() // the only error is that it is closed
	}
	s.running.Wait()
	return nil
}

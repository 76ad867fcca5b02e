package debug

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// fakeListener hands out connections that clients made.
type fakeListener struct {
	net.Listener
	comes chan net.Conn
}

func (l fakeListener) Accept() (net.Conn, error) {
	c, ok := <-l.comes
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

// fakeConn is a connection from an address.
type fakeConn struct {
	net.Conn
	from   net.Addr
	closed *[]string // names, in order
	name   string
}

func (c fakeConn) RemoteAddr() net.Addr { return c.from }

func (c fakeConn) Close() error {
	*c.closed = append(*c.closed, c.name)
	return nil
}

// room is a crowd of at most four, driven by words: "a1" comes from client a,
// "a1+" is being answered, "a1-" is not any more, "a1." closes itself.
type room struct {
	crowd  *crowd
	comes  chan net.Conn
	conns  map[string]*conn
	closed []string
}

func newRoom(ofOne int) *room {
	comes := make(chan net.Conn, 1)
	return &room{crowd: &crowd{Listener: fakeListener{comes: comes}, most: 4, ofOne: ofOne}, comes: comes, conns: map[string]*conn{}}
}

func (r *room) do(word string) error {
	name := strings.TrimRight(word, "+-.")
	switch c := r.conns[name]; word[len(name):] {
	case "+":
		c.setBusy(true)
	case "-":
		c.setBusy(false)
	case ".":
		return c.Close()
	default:
		r.comes <- fakeConn{from: &net.TCPAddr{IP: net.IPv4(10, 0, 0, name[0]), Port: 1}, closed: &r.closed, name: name}
		c, err := r.crowd.Accept()
		if err != nil {
			return err
		}
		r.conns[name] = c.(*conn)
	}
	return nil
}

func TestWhoGivesWay(t *testing.T) {
	for _, tc := range []struct {
		words, closed string
		ofOne         int // 0: as many as there are places
	}{
		{"a1 a2 a3 a4", "", 0},
		{"a1 a2 a3 a4 a5 a6", "a1 a2", 0},
		{"a1 a2 a3 a4 a1+ a1- a5", "a2", 0},     // the one that waits longest
		{"b1 a2 a3 a4 b5", "a2", 0},             // one of the client with the most
		{"a1 a2 a3 a4 b1 b2 b3", "a1 a2 b1", 0}, // until both clients have equally many
		{"a1+ a2+ a3 a4 b1", "a3", 0},           // busy connections stay open
		{"a1+ a2+ a3+ b1 a4", "a4", 0},          // the new one is the only idle one
		{"a1+ a2+ a3+ a4+ b1", "b1", 0},         // also if it is of another client
		{"a1 a2 a3 a4 a2. a5", "a2", 0},         // a place is free
		{"a1 a1+ a1. a1- a2 a3 a4 a5", "a1", 0}, // a closed connection is not added again
		{"a1 a2 a3 a4 a5 a1. a6", "a1 a1 a2", 0},
		{"a1 a2 b1 a3 b2", "a1", 2},            // the oldest idle one of the same client, although there is room
		{"b1 a1 a2 a3 b2", "a1", 2},            // and not another client's
		{"b1 a1+ a2+ a3 b2", "a3", 2},          // all others are busy: the new one
		{"a1+ a2+ a3 a4 a5 b1", "a3 a4 a5", 2}, // however many try
	} {
		r := newRoom(cmp.Or(tc.ofOne, 4))
		for word := range strings.FieldsSeq(tc.words) {
			name := strings.TrimRight(word, "+-.")
			if r.conns[name] == nil {
				require.NoError(t, r.do(name))
			}
			if name != word {
				require.NoError(t, r.do(word))
			}
		}
		require.Equal(t, tc.closed, strings.Join(r.closed, " "), tc.words)
		require.LessOrEqual(t, len(r.crowd.conns), 4)
	}
	r := newRoom(4)
	close(r.comes)
	_, err := r.crowd.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
}

// Whatever comes and goes: never more than the number, who is being answered is
// never cut off, and a client with few is not in the way of one with many.
func TestCrowd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, n := newRoom(4), 0
		pick := func(t *rapid.T) string {
			names := make([]string, 0, len(r.conns))
			for name, c := range r.conns {
				if slices.Contains(r.crowd.conns, c) {
					names = append(names, name)
				}
			}
			if len(names) == 0 {
				t.Skip("nobody")
			}
			slices.Sort(names)
			return rapid.SampledFrom(names).Draw(t, "who")
		}
		word := func(t *rapid.T, word string) {
			if err := r.do(word); err != nil {
				t.Fatal(err)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"comes": func(t *rapid.T) {
				n++
				before := slices.Clone(r.crowd.conns)
				closed := len(r.closed)
				name := fmt.Sprintf("%s%d", rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "from"), n)
				word(t, name)
				if len(r.closed) == closed {
					return
				}
				leaves := r.conns[r.closed[closed]]
				has := func(client *conn) (all int) {
					for _, c := range append(before, r.conns[name]) {
						if c.from == client.from {
							all++
						}
					}
					return all
				}
				for _, c := range before {
					if leaves.busy || !c.busy && has(c) > has(leaves) {
						t.Fatalf("%s gives way for %s", r.closed[closed], name)
					}
				}
			},
			"begins": func(t *rapid.T) { word(t, pick(t)+"+") },
			"ends":   func(t *rapid.T) { word(t, pick(t)+"-") },
			"closes": func(t *rapid.T) { word(t, pick(t)+".") },
			"": func(t *rapid.T) {
				if len(r.crowd.conns) > 4 {
					t.Fatal(errors.New("too many"))
				}
			},
		})
	})
}

package hnsd

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/winnpm/winnpm/pkg/hns"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start serves a node until the test ends and returns a client of it.
func start(t *testing.T, o Options) (*Server, *client) {
	t.Helper()
	s := New(o)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	return s, connect(t, l.Addr().String(), 1)
}

// client is one connection of one process.
type client struct {
	t    testing.TB
	conn net.Conn
	pid  uint32
}

func connect(t testing.TB, addr string, pid uint32) *client {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return &client{t: t, conn: conn, pid: pid}
}

// as opens another connection.
func (c *client) as(pid uint32) *client {
	c.t.Helper()
	return connect(c.t, c.conn.RemoteAddr().String(), pid)
}

// opOf finds the number of an export.
func opOf(name string) uint32 {
	for number, op := range ops {
		if op.name == name {
			return number
		}
	}
	panic("no export " + name)
}

// send writes a request as the DLLs do.
func (c *client) send(name string, r request) {
	c.t.Helper()
	text1, _ := encodeText(&r.text[0])
	text2, _ := encodeText(&r.text[1])
	out := binary.LittleEndian.AppendUint32(nil, uint32(requestHeader+len(text1)+len(text2)))
	out = binary.LittleEndian.AppendUint32(out, opOf(name))
	out = binary.LittleEndian.AppendUint32(out, c.pid)
	out = append(out, r.id[:]...)
	out = binary.LittleEndian.AppendUint64(out, r.handle)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(text1)))
	out = binary.LittleEndian.AppendUint32(out, uint32(len(text2)))
	out = append(append(out, text1...), text2...)
	_, err := c.conn.Write(out)
	require.NoError(c.t, err)
}

// receive reads a reply; an error says that the connection is over.
func (c *client) receive() (reply, error) {
	var length [4]byte
	if _, err := io.ReadFull(c.conn, length[:]); err != nil {
		return reply{}, err
	}
	frame := make([]byte, binary.LittleEndian.Uint32(length[:]))
	if _, err := io.ReadFull(c.conn, frame); err != nil {
		return reply{}, err
	}
	a := reply{code: binary.LittleEndian.Uint32(frame), handle: binary.LittleEndian.Uint64(frame[4:])}
	record := int32(binary.LittleEndian.Uint32(frame[12:]))
	output := int32(binary.LittleEndian.Uint32(frame[16:]))
	rest := frame[replyHeader:]
	for _, text := range []struct {
		len int32
		to  **string
	}{{record, &a.record}, {output, &a.output}} {
		if text.len < 0 {
			continue
		}
		s := decodeText(rest[:text.len])
		*text.to = &s
		rest = rest[text.len:]
	}
	require.Empty(c.t, rest)
	return a, nil
}

func (c *client) call(name string, r request) reply {
	c.t.Helper()
	c.send(name, r)
	a, err := c.receive()
	require.NoError(c.t, err)
	return a
}

// do makes a call that must succeed.
func (c *client) do(name string, r request) reply {
	c.t.Helper()
	a := c.call(name, r)
	if a.record != nil {
		c.t.Fatalf("%s: 0x%08x %s", name, a.code, *a.record)
	}
	require.Zero(c.t, a.code, name)
	return a
}

// refused makes a call that must fail with a code and a whole record.
func (c *client) refused(code uint32, name string, r request) {
	c.t.Helper()
	a := c.call(name, r)
	require.Equal(c.t, code, a.code, "%s: 0x%08x", name, a.code)
	require.Zero(c.t, a.handle)
	require.Nil(c.t, a.output)
	require.NotNil(c.t, a.record)
	var record struct {
		Success   *bool
		Error     string
		ErrorCode uint32
	}
	require.NoError(c.t, decode(*a.record, &record))
	require.NotNil(c.t, record.Success)
	require.False(c.t, *record.Success)
	require.Equal(c.t, code, record.ErrorCode)
	require.NotEmpty(c.t, record.Error)
}

const allQuery = `{"SchemaVersion":{"Major":2,"Minor":0}}`

// where returns the query that hcsshim makes of a filter.
func where(t testing.TB, filter string) string {
	t.Helper()
	quoted, err := json.Marshal(filter)
	require.NoError(t, err)
	return `{"SchemaVersion":{"Major":2,"Minor":0},"Filter":` + string(quoted) + `}`
}

// ids enumerates.
func (c *client) ids(name, query string) []guid {
	c.t.Helper()
	a := c.do(name, request{text: [2]string{query}})
	var texts []string
	require.NoError(c.t, decode(*a.output, &texts))
	out := []guid{}
	for _, text := range texts {
		out = append(out, mustGUID(c.t, text))
	}
	return out
}

func mustGUID(t testing.TB, text string) guid {
	t.Helper()
	id, err := parseGUID(text)
	require.NoError(t, err)
	return id
}

// pod makes an attached endpoint.
func pod(t testing.TB, s *Server) guid {
	t.Helper()
	text, err := s.CreateEndpoint(netip.MustParseAddr("10.0.0.4"))
	require.NoError(t, err)
	return mustGUID(t, text)
}

// open opens an object.
func (c *client) open(kind string, id guid) uint64 {
	c.t.Helper()
	return c.do("HcnOpen"+kind, request{id: id}).handle
}

// query reads an object into a map or a struct.
func (c *client) query(kind string, handle uint64, into any) {
	c.t.Helper()
	a := c.do("HcnQuery"+kind+"Properties", request{handle: handle, text: [2]string{allQuery}})
	require.NoError(c.t, json.Unmarshal([]byte(*a.output), into))
}

// modify returns the Modify request for policies.
func modify(verb hns.Verb, list ...hns.EndpointPolicy) string {
	settings := encode(policies{list})
	return *encode(modification{"Policy", string(verb), []byte(*settings.output)}).output
}

// setPolicy returns a set as it is sent.
func setPolicy(id string, kind hns.SetType, values string) hns.EndpointPolicy {
	return hns.EndpointPolicy{
		Type:     policyTypeSet,
		Settings: []byte(*encode(setSettings{id, id, kind, values}).output),
	}
}

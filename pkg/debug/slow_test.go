package debug

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/test/switchboard"
)

// pipes is a listener whose clients are on this machine. In a bubble its time is the bubble's,
// and it has no buffers that a slow client could hide behind.
type pipes struct{ *switchboard.Switchboard }

func (p pipes) Accept() (net.Conn, error) {
	conn, err := p.Switchboard.Accept()
	return local4{conn}, err
}

// local4 is a connection from 127.0.0.1.
type local4 struct{ net.Conn }

func (local4) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

func (p pipes) dial(t *testing.T) net.Conn {
	t.Helper()
	conn, err := p.Dial(t.Context())
	require.NoError(t, err)
	return conn
}

// ask sends a request and returns the connection, of which nothing was read.
func (p pipes) ask(t *testing.T, path string) net.Conn {
	t.Helper()
	c := p.dial(t)
	_, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path)
	require.NoError(t, err)
	return c
}

// code returns the status of an answer, and ends the connection.
func code(t *testing.T, c net.Conn) int {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	require.NoError(t, c.Close())
	return resp.StatusCode
}

// serving answers with h until the end of the bubble.
func serving(t *testing.T, h http.Handler) pipes {
	p := pipes{switchboard.New()}
	ended := make(chan error, 1)
	go func() { ended <- Serve(t.Context(), p, h) }()
	t.Cleanup(func() { require.NoError(t, <-ended) })
	return p
}

// cluster is a dataplane on the simulator with pods on its node; change moves
// the i-th to another address.
func cluster(t *testing.T, pods int) (dp *dataplane.Dataplane, change func(i int)) {
	t.Helper()
	sim := hnsfault.New(hnsfault.Options{})
	dp = dataplane.New(dataplane.Config{Client: sim, Node: "n1", Now: time.Now})
	round := 0
	apply := func(indices ...int) {
		round++
		tx := dataplane.NewTransaction()
		for _, i := range indices {
			tx.SetPod(desired.Pod{
				Namespace: "x", Name: fmt.Sprintf("p%d", i), UID: "u", Local: true,
				Addr: netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), Labels: map[string]string{"round": fmt.Sprint(round)},
			})
		}
		if _, err := dp.ApplyDataplane(t.Context(), tx); err != nil {
			t.Error(err)
		}
	}
	all := make([]int, pods)
	for i := range all {
		all[i] = i
	}
	apply(all...)
	return dp, func(i int) { apply(i) }
}

// Clients that read a byte per second hold places, and nothing that a
// transaction needs. After the write timeout they are cut off.
func TestSlowReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dp, change := cluster(t, 500)
		p := serving(t, Handler(Config{Dump: dp.Dump, Healthy: fine, Ready: fine, NodeMetrics: page(strings.Repeat("m", 1<<20))}))

		slow := func(path string, n int) chan int {
			read := make(chan int, n)
			for range n {
				c := p.ask(t, path)
				go func() {
					defer c.Close()
					total := 0
					for one := make([]byte, 1); ; total++ {
						if _, err := c.Read(one); err != nil {
							read <- total
							return
						}
						time.Sleep(time.Second)
					}
				}()
			}
			return read
		}
		dumps, metrics := slow(ManagerPath, heavyAtOnce), slow(NodeMetricsPath, scrapesAtOnce)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Equal(t, http.StatusServiceUnavailable, code(t, p.ask(t, ManagerPath)))
		require.Equal(t, http.StatusServiceUnavailable, code(t, p.ask(t, NodeMetricsPath)))
		require.Equal(t, http.StatusOK, code(t, p.ask(t, "/healthz")))

		began := time.Now()
		for i := range 100 {
			change(i)
		}
		require.Zero(t, time.Since(began), "a transaction waited for a client")
		require.Empty(t, dumps, "a response ended too early to be in the way")
		reports := dp.Dump().Reports
		require.EqualValues(t, 101, reports[len(reports)-1].Generation)

		whole := newServer(t.Context(), nil).WriteTimeout
		for range scrapesAtOnce {
			require.InDelta(t, scrapeTime.Seconds(), <-metrics, 2)
		}
		require.Equal(t, http.StatusOK, code(t, p.ask(t, NodeMetricsPath)))
		for range heavyAtOnce {
			require.InDelta(t, whole.Seconds(), <-dumps, 2)
		}
		require.Equal(t, http.StatusOK, code(t, p.ask(t, ManagerPath)), "places are free again")
	})
}

// Clients that write slowly, or nothing, or too much are cut off.
func TestSlowWriters(t *testing.T) {
	for _, tc := range []struct {
		name   string
		writes func(net.Conn)
		answer string
		after  time.Duration
	}{
		{"nothing", func(net.Conn) {}, "", 5 * time.Second},
		{"headers, a byte per second", func(c net.Conn) {
			for _, b := range []byte("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n") {
				if _, err := c.Write([]byte{b}); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		}, "400 Bad Request", 5 * time.Second},
		{"one request, then nothing", func(c net.Conn) {
			_, _ = io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
		}, "200 OK", 0},
		{"huge headers", func(c net.Conn) {
			_, _ = io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: "+strings.Repeat("x", 1<<20)+"\r\n\r\n")
		}, "431 Request Header Fields Too Large", 500 * time.Millisecond},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := serving(t, full()).dial(t)
				began := time.Now()
				wrote := make(chan struct{})
				go func() {
					defer close(wrote)
					tc.writes(c)
				}()
				answer, err := io.ReadAll(c)
				require.NoError(t, err)
				require.LessOrEqual(t, time.Since(began), tc.after+time.Second)
				require.GreaterOrEqual(t, time.Since(began), tc.after)
				require.NoError(t, c.Close())
				<-wrote
				first, _, _ := strings.Cut(string(answer), "\r\n")
				require.Equal(t, tc.answer, strings.TrimPrefix(first, "HTTP/1.1 "))
			})
		})
	}
}

package debug

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestProbesUnderFlood: a client with a thousand connections, of which some send more requests than are
// answered and others none, delays what is asked at its port, and not the kubelet's probes.
func TestProbesUnderFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := pages()
		metrics, probes := serving(t, Handler(cfg)), serving(t, Probes(cfg))
		over := make(chan struct{})
		for i := range 1000 {
			requests := strings.Repeat("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", i%2*100)
			go func() {
				for {
					select {
					case <-over:
						return
					case <-time.After(time.Duration(i) * time.Millisecond):
					}
					c := metrics.dial(t)
					go func() { _, _ = io.WriteString(c, requests) }()
					_, _ = io.Copy(io.Discard, c) // until the server closes it
					_ = c.Close()
				}
			}()
		}
		time.Sleep(10 * time.Second)
		began := time.Now()
		for i := range 20 {
			require.Equal(t, http.StatusOK, code(t, probes.ask(t, []string{"/healthz", "/readyz"}[i%2])))
		}
		require.Zero(t, time.Since(began), "a probe waited")
		require.Equal(t, http.StatusOK, code(t, metrics.ask(t, "/healthz")))
		require.Positive(t, time.Since(began), "the flood is none")
		close(over)
		time.Sleep(5 * time.Minute)
	})
}

// TestProbes: the listener of the kubelet has two pages, answers only this machine, and
// closes each connection after one answer.
func TestProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := Probes(pages())
		for path, want := range map[string]int{"/healthz": http.StatusOK, "/readyz": http.StatusOK, NodeMetricsPath: http.StatusNotFound, ManagerPath: http.StatusNotFound, "/": http.StatusNotFound} {
			code, _ := ask(t, h, path, here, "127.0.0.1:10094")
			require.Equal(t, want, code, path)
		}
		code, _ := ask(t, h, "/healthz", "10.0.0.1:1", "10.9.0.1:10094")
		require.Equal(t, http.StatusForbidden, code)

		answer, err := io.ReadAll(serving(t, h).ask(t, "/healthz"))
		require.NoError(t, err, "until it is closed")
		require.Contains(t, string(answer), "\r\nConnection: close\r\n")
	})
}

package debug

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestServe(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	asked := make(chan struct{})
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			close(asked)
			<-r.Context().Done()
			return
		}
		_, _ = io.WriteString(w, "hello")
	})
	go func() { ended <- Serve(ctx, l, h) }()

	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + l.Addr().String() + "/")
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, "hello", string(body))

	slow := make(chan struct{})
	go func() {
		defer close(slow)
		if resp, err := client.Get("http://" + l.Addr().String() + "/slow"); err == nil {
			_ = resp.Body.Close()
		}
	}()
	<-asked
	began := time.Now()
	cancel()
	require.NoError(t, <-ended, "a request in progress is ended, and that is no error")
	require.Less(t, time.Since(began), 30*time.Second)
	<-slow
}

func TestServeOnAClosedListener(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	err = Serve(t.Context(), l, http.NotFoundHandler())
	require.ErrorIs(t, err, net.ErrClosed)
	require.True(t, strings.HasPrefix(err.Error(), "serve on 127.0.0.1:"), err)
}

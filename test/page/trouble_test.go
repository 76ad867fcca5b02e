package page

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// between is a server in front of another one that changes the JSON of its
// answers; path is what was asked for.
func between(t *testing.T, base string, change func(path string, body []byte) []byte) string {
	t.Helper()
	target, err := url.Parse(base)
	require.NoError(t, err)
	srv := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ModifyResponse: func(r *http.Response) error {
			under, isJSON := strings.CutPrefix(r.Request.URL.Path, "/api/")
			if !isJSON {
				return nil
			}
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return err
			}
			body = change(under, body)
			r.StatusCode = http.StatusOK
			r.Body = io.NopCloser(bytes.NewReader(body))
			r.Header.Set("Content-Length", strconv.Itoa(len(body)))
			return nil
		},
	})
	t.Cleanup(srv.Close)
	return srv.URL
}

// troubled is a server with the golden answers of a node whose HNS is behind.
func troubled(t *testing.T) string {
	t.Helper()
	names := map[string]string{"pods/x/web": "pod", "policies/x/web": "policy"}
	return between(t, simulate(t, shop), func(asked string, body []byte) []byte {
		name, ok := names[asked]
		if !ok {
			name = path.Base(asked)
		}
		golden, err := os.ReadFile(filepath.Join("../../tool/ui/testdata", name+".json"))
		if err != nil {
			return body
		}
		return golden
	})
}

// TestTrouble: what waits, what is left out, and where HNS does what it should
// not, are seen at once.
func TestTrouble(t *testing.T) {
	b := open(t, troubled(t), "#/matrix", 1440, 1000)
	b.painted()
	require.Contains(t, b.text("#health"), "not ready")
	require.Contains(t, b.text("#health"), "two things wait")
	require.Equal(t, "4pendingHNS is behind", b.text("#tiles .tile:nth-child(6)"))
	attention := b.text("#attention")
	for _, words := range []string{"x/web", "3 attempts", "HNS\nis down", "for 4 min", "x/late", "has no endpoint yet", "HNS lacks 1 member, HNS has 1 too many", "what HNS has is not known", "HNSRejected"} {
		require.Contains(t, attention, words)
	}
	require.Contains(t, b.text(".legend"), "1 not as it should be")
	b.click(b.cell(0, 2))
	b.wait("document.querySelector('#panel .should') !== null")
	require.Contains(t, b.text("#panel .should"), "HNS should do otherwise: ✕ blocked since")
	b.picture("trouble-light")
	b.prefer("dark")
	b.picture("trouble-dark")

}

// TestAgentGone: while nobody answers the page says so, and what it shows stays.
func TestAgentGone(t *testing.T) {
	gone := make(chan struct{})
	target, err := url.Parse(simulate(t, shop))
	require.NoError(t, err)
	next := httputil.NewSingleHostReverseProxy(target)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-gone:
			panic(http.ErrAbortHandler)
		default:
			next.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(srv.Close)
	b := open(t, srv.URL, "", 1440, 900)
	b.painted()
	close(gone)
	b.wait("!document.getElementById('offline').hidden")
	require.Contains(t, b.text("#offline"), "the server does not answer")
	require.Contains(t, b.text("#tiles"), "18pods")
	b.picture("gone-light")
	b.mu.Lock()
	defer b.mu.Unlock()
	require.NotEmpty(t, b.wrong)
	b.wrong = nil
}

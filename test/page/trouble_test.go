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

// hostile is markup in the place of a namespace.
const hostile = `<img src=x onerror=hurt()><script>hurt()</script>&lt;'"`

// poisoned is a server in front of another one that puts markup into every name
// of the namespace shop, labels and rules included.
func poisoned(t *testing.T, base string) string {
	t.Helper()
	inJSON := []byte(strings.ReplaceAll(hostile, `"`, `\"`))
	return between(t, base, func(_ string, body []byte) []byte {
		for _, word := range []string{"shop", "tier", "logic"} {
			body = bytes.ReplaceAll(body, []byte(word), inJSON)
		}
		return body
	})
}

// TestHostileNames: text that looks like markup stays text.
func TestHostileNames(t *testing.T) {
	base := poisoned(t, simulate(t, shop))
	for place, ready := range map[string]string{
		"#/matrix?show=trace:shop/storefront-0->shop/db-0:5432/TCP": "document.querySelector('.grid').dataset.painted && document.querySelector('#panel .verdict')",
		"#/matrix?show=pod:shop/api-0":                              "document.querySelector('#panel .acls')",
		"#/policies?object=shop/data":                               "document.querySelectorAll('.setlist [data-object]').length > 1 && document.querySelector('.detail pre')",
		"#/pods?object=shop/api-0":                                  "document.querySelectorAll('.setlist [data-object]').length > 1 && document.querySelector('.detail .acls')",
		"#/matrix?open=-":                                           "document.querySelector('.grid').dataset.painted",
		"#/matrix?show=policy:shop/data":                            "document.querySelector('#panel pre')",
	} {
		b := open(t, base, place, 1440, 1000)
		b.wait("Boolean(" + ready + ")")
		require.Equal(t, 0, eval[int](b, "document.querySelectorAll('main img, main script').length"))
		b.press("/")
		b.press(strings.Split("shop", "")...)
		b.wait("document.getElementById('found').dataset.of === 'shop' && document.querySelectorAll('#found li').length > 10")
		require.Contains(t, eval[string](b, "document.body.innerText"), hostile, "it is shown as it is")
		require.Equal(t, 1, eval[int](b, "document.querySelectorAll('img').length"), "the picture of the head line")
		require.Equal(t, 1, eval[int](b, "document.querySelectorAll('script').length"))
		require.Equal(t, "undefined", eval[string](b, "typeof hurt"))
	}
}

package page

import (
	"bytes"
	"encoding/json"
	"fmt"
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
	"time"

	"github.com/chromedp/chromedp/kb"
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
			under, isJSON := strings.CutPrefix(r.Request.URL.Path, "/npm/v1/debug/")
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
			r.Header.Del("ETag")
			return nil
		},
	})
	t.Cleanup(srv.Close)
	return srv.URL
}

// troubled is a server with the golden answers of a node whose HNS is behind.
func troubled(t *testing.T) string {
	t.Helper()
	names := map[string]string{"sets/azure-npm-api": "set", "sets/azure-npm-nest": "set-nested", "pods/x/web": "pod", "policies/x/web": "policy"}
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
	require.Empty(t, eval[[]string](b, pale))

	b.clickOn("[...document.querySelectorAll('#attention a')].find((el) => el.textContent === 'podlabel-app:api')")
	b.wait("document.querySelectorAll('.graph .node.pin').length === 2")
	require.Equal(t, 1, eval[int](b, "document.querySelectorAll('.graph .node.wish').length"), "the member that HNS lacks")
	require.Equal(t, 1, eval[int](b, "document.querySelectorAll('.graph .node.left').length"), "the one too many")
	require.Empty(t, eval[[]string](b, pale))
	b.picture("trouble-sets-dark")
}

// recorded is the recording of an hour, in which HNS was down for a while.
func recorded(t *testing.T) []byte {
	t.Helper()
	type object map[string]any
	began := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	var steps []object
	for i := range 60 {
		at := began.Add(time.Duration(i*i) * time.Second)
		took := time.Duration(1+i%7) * time.Duration(1+i%11) * time.Millisecond
		call := object{"op": "Endpoint/Modify", "endpoint": "4a8ed453", "began": at.Add(took / 3), "took": took / 2, "acls": []object{{}, {}}}
		step := object{
			"number": i + 1, "kind": "transaction", "began": at, "took": took,
			"events": []object{{"kind": "pod", "operation": "set", "object": fmt.Sprintf("x/web-%d", i)}, {"kind": "policy", "operation": "delete", "object": "x/old"}},
			"calls":  []object{{"op": "SetPolicy/Update", "began": at, "took": took / 4, "sets": []object{{}}}, call},
			"report": object{"generation": i + 1, "plan": "update ns-x\n", "pending": 0},
		}
		switch {
		case i%13 == 5:
			step["kind"], step["events"], step["report"] = "observation", nil, nil
		case i >= 40 && i < 44:
			step["took"] = 30 * time.Second
			call["took"], call["error"] = 29*time.Second, object{"class": "unavailable", "message": "HNS did not answer within 29s"}
		case i == 59:
			step["running"], step["moreEvents"], step["moreCalls"] = true, 1200, 3
		}
		steps = append(steps, step)
	}
	body, err := json.Marshal(object{"steps": steps})
	require.NoError(t, err)
	return body
}

// TestTimeline: every step has its bar, errors are marked, keys move, and what a
// step did is there.
func TestTimeline(t *testing.T) {
	steps := recorded(t)
	base := between(t, simulate(t, shop), func(path string, body []byte) []byte {
		if path == "transactions" {
			return steps
		}
		return body
	})
	b := open(t, base, "#/timeline", 1440, 1000)
	b.wait("document.querySelectorAll('.chart .bar').length === 60")
	require.Equal(t, 4, eval[int](b, "document.querySelectorAll('.chart .bar.bad').length"))
	require.Contains(t, b.text(".step"), "Step 60: transaction")
	require.Contains(t, b.text(".step"), "is running")
	require.Contains(t, b.text(".step"), "What came in (1202)")
	require.Contains(t, b.text(".step"), "3 earlier ones left out")

	b.tabTo("el.classList.contains('bar')")
	for range 17 {
		b.press(kb.ArrowLeft)
	}
	b.wait("document.querySelector('.step h2').textContent.startsWith('Step 43:')")
	require.Equal(t, "43", eval[string](b, "document.activeElement.dataset.step"), "the focus goes along")
	require.Contains(t, b.text(".step"), "✕ Errors")
	require.Contains(t, b.text(".step"), "HNS did not answer within 29s")
	require.Contains(t, eval[string](b, "location.hash"), "step=43")
	b.picture("timeline-light")
	b.prefer("dark")
	b.picture("timeline-dark")
	require.Empty(t, eval[[]string](b, pale))
	b.press(kb.Home)
	b.wait("document.querySelector('.step h2').textContent.startsWith('Step 1:')")
}

// TestLiveTimeline: kubectl npm simulate records what it does.
func TestLiveTimeline(t *testing.T) {
	b := open(t, simulate(t, shop), "#/timeline", 1440, 1000)
	b.wait("document.querySelectorAll('.chart .bar').length > 0")
	require.Contains(t, b.text(".steps"), "6 namespaces, 1 node, 18 pods")
	require.Contains(t, b.text(".step"), "SetPolicy/Add")
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
	require.Contains(t, b.text("#offline"), "the agent does not answer")
	require.Contains(t, b.text("#tiles"), "18pods")
	b.picture("gone-light")
	b.mu.Lock()
	defer b.mu.Unlock()
	require.NotEmpty(t, b.wrong)
	b.wrong = nil
}

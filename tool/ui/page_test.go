package ui

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/winnpm/winnpm/pkg/debug"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/explain"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// taken is when the dumps of the tests were taken.
var taken = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// behind is a node with something of everything: web may be reached from api by
// HNS's present rules and from nobody by the wanted ones, a set lacks a member
// and is pinned, a pod waits for its endpoint.
func behind() state.Dump {
	rule := hns.ACL{ID: "azure-acl-x.web", Protocols: "6", Action: hns.Allow, Direction: hns.In, LocalAddresses: "azure-npm-api", LocalPorts: "80", RuleType: hns.Switch, Priority: 222}
	block := hns.ACL{ID: "azure-acl-npm-block-in", Action: hns.Block, Direction: hns.In, RuleType: hns.Switch, Priority: 3000}
	open := []hns.ACL{
		{Action: hns.Allow, Direction: hns.In, RuleType: hns.Switch, Priority: 65500},
		{Action: hns.Allow, Direction: hns.Out, RuleType: hns.Switch, Priority: 65500},
	}
	warning := state.Warning{Object: "x/web", Kind: "NetworkPolicy", Reason: state.ReasonHNSRejected, Message: "no"}
	since := taken.Add(-4 * time.Minute)
	return state.Dump{
		Node: "n1", Time: taken,
		Sets: []state.SetDump{
			{
				ID: "azure-npm-api", Name: "podlabel-app:api", Type: string(hns.IPSet), Members: []string{"10.0.0.2", "10.0.0.9"},
				Holders: []string{"selector x/web", "list nestedlabel-app:api:b", "applied e1", "selector port http/TCP@"}, Pins: []string{"e1", "e9"},
				InHNS: true, Dirty: true, Missing: []string{"10.0.0.9"}, Surplus: []string{"10.0.0.8"}, Since: since,
			},
			{ID: "azure-npm-nest", Name: "nestedlabel-app:api:b", Type: string(hns.NestedIPSet), Members: []string{"podlabel-app:api"}, Holders: []string{"rule e1"}, Pins: []string{}, Unknown: true, Missing: []string{"empty-emptyhashset"}},
		},
		Pending: []state.Pending{
			{Pod: "x/web", UID: "u1", Endpoint: "e1", Join: []string{}, Leave: []string{"podlabel-app:api"}, Attempts: 3, Error: "HNS\nis down"},
			{Pod: "x/late", UID: "u3", Join: []string{}, Leave: []string{}},
		},
		Endpoints: []state.EndpointDump{
			{ID: "e1", Addrs: []string{"10.0.0.1"}, Pod: "x/web", Applied: []hns.ACL{rule, block}, Wanted: []hns.ACL{block}, Sources: []state.RuleSource{{}}, Known: true, ForeignRules: open, Since: since},
			{ID: "e2", Addrs: []string{"10.0.0.2"}, Pod: "x/api", Applied: []hns.ACL{}, Wanted: []hns.ACL{}, Known: true, ForeignRules: open},
		},
		Policies: []state.PolicyDump{{Policy: "x/web", Ingress: true, Selected: []string{"x/web"}, Problems: []string{"Invalid: spec: no"}}},
		Pods: []state.PodDump{
			{Pod: "x/api", UID: "u2", Addr: "10.0.0.2", Labels: map[string]string{"app": "api"}, Local: true, Owner: true, Endpoints: []string{"e2"}},
			{Pod: "x/late", UID: "u3", Addr: "10.0.0.3", Local: true, Owner: true},
			{Pod: "x/web", UID: "u1", Addr: "10.0.0.1", Labels: map[string]string{"app": "web"}, Local: true, Owner: true, Endpoints: []string{"e1"}, Ports: []string{"http:80/TCP"}},
			{Pod: "y/far", UID: "u4", Addr: "10.0.1.1", Owner: true},
		},
		Namespaces: []state.NamespaceDump{{Name: "x"}, {Name: "y"}},
		Warnings:   []state.Warning{warning},
		Reports: []state.Report{
			{Generation: 7, Started: since.Add(-time.Hour)},
			{Generation: 8, Started: since, Warnings: []state.Warning{warning}},
			{Generation: 9, Started: taken.Add(-time.Second), Warnings: []state.Warning{warning}},
		},
	}
}

func handler(d state.Dump) http.Handler {
	return Handler(Config{
		Dump: func(context.Context) (state.Dump, error) { return d, nil },
		Status: func(context.Context) (debug.Status, error) {
			return debug.StatusOf(d, "v1", func() error { return nil }, func() error { return errors.New("two\n  things wait") }), nil
		},
		MaxAge: time.Second, Places: explain.Places{"x/web": "a.yaml:1"},
	})
}

func get(t *testing.T, h http.Handler, target string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, req)
	return rec
}

// TestAnswers has what the page gets, as golden text.
func TestAnswers(t *testing.T) {
	for _, tc := range []struct{ name, path string }{
		{"status", "status"},
		{"matrix", "matrix?here=any&port=80/TCP"},
		{"matrix-any-port", "matrix?here=any"},
		{"matrix-into-this-node", "matrix?port=80"},
		{"matrix-out-of-this-node", "matrix?here=from&port=80"},
		{"matrix-filtered", "matrix?port=81&from=API&namespace=x"}, // a number is of TCP
		{"matrix-none", "matrix?to=nothing&port=80/TCP"},
		{"trace", "trace?q=" + url.QueryEscape("x/api -> x/web:80/TCP")},
		{"pods", "pods"},
		{"pods-filtered", "pods?filter=another%20node"},
		{"pod", "pods/x/web"},
		{"pod-elsewhere", "pods/y/far"},
		{"policies", "policies"},
		{"policy", "policies/x/web"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rec := get(t, handler(behind()), "/api/"+tc.path)
			require.Equal(t, http.StatusOK, rec.Code, rec.Body.String())
			require.Equal(t, "application/json", rec.Header().Get("Content-Type"))
			var body any
			require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &body))
			got, err := json.MarshalIndent(body, "", "  ")
			require.NoError(t, err)
			golden := filepath.Join("testdata", tc.name+".json")
			if *update {
				require.NoError(t, os.MkdirAll("testdata", 0o755))
				require.NoError(t, os.WriteFile(golden, append(got, '\n'), 0o644))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.Equal(t, string(want), string(got)+"\n")
		})
	}
}

// TestRefusals: what cannot be asked is said in one line of JSON.
func TestRefusals(t *testing.T) {
	for path, want := range map[string]struct {
		status int
		text   string
	}{
		"trace":                     {http.StatusBadRequest, "write FROM->TO:PORT/PROTO, like shop/web->shop/db:5432/TCP"},
		"trace?q=x/nobody->x/web:1": {http.StatusBadRequest, "write PORT/PROTO, like 80/TCP"},
		"trace?q=x/nobody->x/web:1/TCP": {
			http.StatusBadRequest, "x/nobody cannot be asked about: there is no such pod",
		},
		"matrix?port=80/":    {http.StatusBadRequest, "\"\" is no protocol"},
		"matrix?port=70000":  {http.StatusBadRequest, "\"70000\" is no port: a number from 1 to 65535 is"},
		"matrix?here=there":  {http.StatusBadRequest, `"there" is no end: from, to and any are`},
		"pods/x/nobody":      {http.StatusNotFound, "there is no pod x/nobody"},
		"policies/x/nothing": {http.StatusNotFound, "there is no policy x/nothing"},
		"clusterpolicies/x":  {http.StatusNotFound, "there is no policy x"},
	} {
		rec := get(t, handler(behind()), "/api/"+path)
		require.Equal(t, want.status, rec.Code, path)
		var body struct{ Error string }
		require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &body), path)
		require.Contains(t, body.Error, want.text, path)
		require.NotContains(t, body.Error, "\n", path)
	}
}

// TestNothingKnown: the dump of an agent that has just begun.
func TestNothingKnown(t *testing.T) {
	h := handler(state.Dump{})
	for path, want := range map[string]string{
		"matrix":   `{"port":"any","ports":[],"other":"65535/TCP","namespaces":[],"workloads":0,"here":"any","elsewhere":false,"rows":[],"columns":[],"cut":false,"cells":[],"deniers":[]}`,
		"pods":     `{"entries":[],"total":0,"found":0,"trouble":0}`,
		"policies": `{"entries":[],"total":0,"found":0,"trouble":0}`,
	} {
		require.JSONEq(t, want, get(t, h, "/api/"+path).Body.String(), path)
	}
}

// TestFiles: every file of the page is there, as what it is, and nothing else.
func TestFiles(t *testing.T) {
	h := handler(behind())
	index := get(t, h, "/")
	require.Equal(t, http.StatusOK, index.Code)
	require.Equal(t, "text/html; charset=utf-8", index.Header().Get("Content-Type"))
	require.Contains(t, index.Body.String(), `src="ui/app.js"`)

	app := get(t, h, "/ui/app.js")
	require.Equal(t, "text/javascript; charset=utf-8", app.Header().Get("Content-Type"), "not what the system's registry says")
	for _, path := range []string{"/ui/", "/ui/nothing.js", "/ui/../page.go", "/ui/%2e%2e%2fpage.go", "/static/app.js", "/nothing", "/api/nothing"} {
		require.NotEqual(t, http.StatusOK, get(t, h, path).Code, path)
	}
	post := httptest.NewRecorder()
	h.ServeHTTP(post, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil))
	require.Equal(t, http.StatusMethodNotAllowed, post.Code)
}

// TestHeaders: the browser runs and loads what this server gives it, nothing
// else, whatever the answer.
func TestHeaders(t *testing.T) {
	for _, path := range []string{"/", "/ui/app.js", "/nothing", "/api/status", "/api/matrix?port=x"} {
		got := get(t, handler(behind()), path).Header()
		csp := got.Get("Content-Security-Policy")
		require.True(t, strings.HasPrefix(csp, "default-src 'none'; script-src 'self'; style-src 'self';"), path)
		require.Contains(t, csp, "frame-ancestors 'none'", path)
		require.NotContains(t, csp, "unsafe", path)
		require.Equal(t, "nosniff", got.Get("X-Content-Type-Options"), path)
		require.Equal(t, "no-referrer", got.Get("Referrer-Policy"), path)
	}
}

// TestScriptsMakeNoMarkup: text of the cluster can become markup only through
// these, so the scripts have none of them.
func TestScriptsMakeNoMarkup(t *testing.T) {
	entries, err := static.ReadDir("static")
	require.NoError(t, err)
	require.NotEmpty(t, entries)
	for _, e := range entries {
		content, err := static.ReadFile("static/" + e.Name())
		require.NoError(t, err)
		for _, banned := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "http:", "https:", "javascript:", "style="} {
			if strings.HasSuffix(e.Name(), ".svg") {
				continue // the namespace of SVG
			}
			require.NotContains(t, string(content), banned, e.Name())
		}
		require.LessOrEqual(t, strings.Count(string(content), "\n"), 300, "%s: split it", e.Name())
	}
}

package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/bounded"
	"github.com/winnpm/winnpm/pkg/debug"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/effort"
	"github.com/winnpm/winnpm/tool/simulate"
)

// debugEndpoint answers as that of an agent that has the shop.
func debugEndpoint(t *testing.T, change func(*state.Dump)) *httptest.Server {
	t.Helper()
	d, _, err := simulate.Snapshot(t.Context(), simulate.Options{Manifests: []string{shop}})
	require.NoError(t, err)
	change(&d)
	server := httptest.NewServer(debug.Handler(debug.Config{Dump: func() state.Dump { return d }}))
	t.Cleanup(server.Close)
	return server
}

func same(*state.Dump) {}

func TestTrace(t *testing.T) {
	server := debugEndpoint(t, same)
	unknown := debugEndpoint(t, func(d *state.Dump) {
		for i := range d.Endpoints {
			d.Endpoints[i].Known = false
		}
	})
	broken := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(broken.Close)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()

	const (
		blocked = "shop/storefront-0->shop/db-0:5432/TCP"
		allowed = "node->shop/db-0:5432/TCP"
	)
	for _, tc := range []struct {
		name   string
		args   []string
		code   int
		stdout string // how it begins; "" for nothing at all
		stderr string // a part of the line; "" for nothing at all
	}{
		{"blocked", []string{blocked, "--server", server.URL}, exitBlocked, "BLOCKED  shop/storefront-0 -> shop/db-0:5432/TCP  (10.", ""},
		{"two arguments", []string{"node", "shop/db-0:5432/TCP", "--server", server.URL + "/"}, exitAllowed, "ALLOWED  node -> ", ""},
		{"not known", []string{blocked, "--server", unknown.URL}, exitUnknown, "UNKNOWN  ", ""},
		{"manifests", []string{blocked, "--manifests", shop}, exitBlocked, "BLOCKED  ", ""},
		{"half of it", []string{allowed, "--manifests", shop, "--node", "win-1"}, exitAllowed, "ALLOWED  ", ""},
		{"JSON", []string{allowed, "--manifests", shop, "-o", "json"}, exitAllowed, `{"from":"node","to":"shop/db-0",`, ""},

		{"no such pod", []string{"shop/db->shop/db-0:1/TCP", "--server", server.URL}, exitNoDump, "", "kubectl npm: trace: shop/db cannot be asked about: there is no such pod; there is shop/db-0"},
		{"nobody there", []string{allowed, "--server", gone.URL}, exitNoDump, "", "is the agent running there? --dump and --manifests ask something else"},
		{"another server", []string{allowed, "--server", broken.URL}, exitNoDump, "", broken.URL + debug.ManagerPath + ": 404 Not Found: its Toggles.EnableHTTPDebugAPI is off"},
		{"no file", []string{allowed, "--dump", "none"}, exitNoDump, "", "none"},
		{"no dump", []string{allowed, "--dump", "../../README.md"}, exitNoDump, "", "../../README.md: no dump of /npm/v1/debug/manager"},
		{"no manifests", []string{allowed, "--manifests", "none"}, exitNoDump, "", "kubectl npm: trace: none: cannot be read"},

		{"no question", nil, 2, "", "kubectl npm: trace: 0 arguments: write trace FROM TO:PORT"},
		{"no arrow", []string{"x/web"}, 2, "", `kubectl npm: trace "x/web": write FROM->TO:PORT/PROTO`},
		{"no output", []string{allowed, "-o", "xml"}, 2, "", "the output is text, json or yaml"},
		{"two sources", []string{allowed, "--dump", "-", "--manifests", shop}, 2, "", "exclude each other: give one of them"},
		{"a node of a dump", []string{allowed, "--dump", "-", "--node", "win-1"}, 2, "", "--node is for --manifests"},
		{"no URL", []string{allowed, "--server", "localhost:10091"}, 2, "", "write it like http://127.0.0.1:10091"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, stdout, stderr := command(t, "", append([]string{"trace"}, tc.args...)...)
			require.Equal(t, tc.code, code, stderr)
			if tc.stdout == "" {
				require.Empty(t, stdout)
				require.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
				require.Contains(t, stderr, tc.stderr)
				return
			}
			require.True(t, strings.HasPrefix(stdout, tc.stdout), stdout)
			require.Empty(t, stderr)
		})
	}
}

// A dump says the same from a file, from stdin and from where it came; manifests
// add where the policies are.
func TestTraceSources(t *testing.T) {
	const question = "shop/storefront-0 -> shop/db-0:5432/TCP"
	server := debugEndpoint(t, same)
	resp, err := server.Client().Get(server.URL + debug.ManagerPath)
	require.NoError(t, err)
	defer resp.Body.Close()
	dump, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "dump.json")
	require.NoError(t, os.WriteFile(file, dump, 0o600))

	_, asked, _ := command(t, "", "trace", question, "--server", server.URL)
	_, read, _ := command(t, "", "trace", question, "--dump", file)
	_, piped, _ := command(t, string(dump), "trace", question, "--dump", "-")
	require.Equal(t, asked, read)
	require.Equal(t, asked, piped)
	require.NotContains(t, asked, ".yaml:")
	_, simulated, _ := command(t, "", "trace", question, "--manifests", shop)
	require.Contains(t, simulated, "spec.egress[0] ("+filepath.Join(shop, "21-shop-policies.yaml")+":")
}

// A server that never ends its answer, or that gives few bytes which stand for many
// values, costs no memory, whatever command asks it: the answer is given up. For a
// change it is given up after a sixteenth of the bytes.
func TestEndlessAnswer(t *testing.T) {
	most := bounded.OfAnAgent.Bytes
	bounded.OfAnAgent.Bytes /= int64(effort.Of(16, 1, 1))
	t.Cleanup(func() { bounded.OfAnAgent.Bytes = most })
	tooLong := fmt.Sprintf("above %d bytes of JSON; ask the agent again", bounded.OfAnAgent.Bytes)
	for name, tc := range map[string]struct{ head, more, want string }{
		"objects":  {`{"NodeName":"n","endpoints":[`, strings.Repeat("{},", 1<<10), "above 500000 JSON objects; ask the agent again"},
		"a string": {`{"NodeName":"`, strings.Repeat("x", 64<<10), tooLong},
		"nothing":  {"", strings.Repeat(" ", 64<<10), tooLong},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, err := io.WriteString(w, tc.head)
				for err == nil {
					_, err = io.WriteString(w, tc.more)
				}
			}))
			t.Cleanup(server.Close)
			policies := filepath.Join(shop, "21-shop-policies.yaml")
			for _, args := range [][]string{{"trace", "a/b->c/d:1/TCP"}, {"plan", "-f", policies}} {
				code, stdout, stderr := command(t, "", append(args, "--server", server.URL)...)
				require.Equal(t, 1, code)
				require.Empty(t, stdout)
				require.Equal(t, "kubectl npm: "+args[0]+": "+server.URL+debug.ManagerPath+": no dump of "+debug.ManagerPath+": it is larger than anything that an agent writes, "+tc.want+"\n", stderr)
			}
		})
	}
}

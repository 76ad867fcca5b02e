package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/debug"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/simulate"
)

// savedDump saves the dump of an agent that has the shop, as curl does.
func savedDump(t *testing.T, change func(*state.Dump)) (file string) {
	t.Helper()
	d, _, err := simulate.Snapshot(t.Context(), simulate.Options{Manifests: []string{shop}})
	require.NoError(t, err)
	change(&d)
	req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, debug.ManagerPath, nil)
	req.RemoteAddr, req.Host = "127.0.0.1:1", "127.0.0.1"
	answer := httptest.NewRecorder()
	debug.Handler(debug.Config{Dump: func() state.Dump { return d }}).ServeHTTP(answer, req)
	require.Equal(t, http.StatusOK, answer.Code)
	file = filepath.Join(t.TempDir(), "dump.json")
	require.NoError(t, os.WriteFile(file, answer.Body.Bytes(), 0o600))
	return file
}

func same(*state.Dump) {}

func TestTrace(t *testing.T) {
	dump := savedDump(t, same)
	unknown := savedDump(t, func(d *state.Dump) {
		for i := range d.Endpoints {
			d.Endpoints[i].Known = false
		}
	})

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
		{"blocked", []string{blocked, "--dump", dump}, exitBlocked, "BLOCKED  shop/storefront-0 -> shop/db-0:5432/TCP  (10.", ""},
		{"two arguments", []string{"node", "shop/db-0:5432/TCP", "--dump", dump}, exitAllowed, "ALLOWED  node -> ", ""},
		{"not known", []string{blocked, "--dump", unknown}, exitUnknown, "UNKNOWN  ", ""},
		{"manifests", []string{blocked, "--manifests", shop}, exitBlocked, "BLOCKED  ", ""},
		{"half of it", []string{allowed, "--manifests", shop, "--node", "win-1"}, exitAllowed, "ALLOWED  ", ""},
		{"JSON", []string{allowed, "--manifests", shop, "-o", "json"}, exitAllowed, `{"from":"node","to":"shop/db-0",`, ""},

		{"no such pod", []string{"shop/db->shop/db-0:1/TCP", "--dump", dump}, exitNoDump, "", "kubectl npm: trace: shop/db cannot be asked about: there is no such pod; there is shop/db-0"},
		{"no file", []string{allowed, "--dump", "none"}, exitNoDump, "", "none"},
		{"no dump", []string{allowed, "--dump", "../../README.md"}, exitNoDump, "", "../../README.md: no dump of /npm/v1/debug/manager"},
		{"no manifests", []string{allowed, "--manifests", "none"}, exitNoDump, "", "kubectl npm: trace: none: cannot be read"},

		{"no question", nil, 2, "", "kubectl npm: trace: 0 arguments: write trace FROM TO:PORT"},
		{"no arrow", []string{"x/web"}, 2, "", `kubectl npm: trace "x/web": write FROM->TO:PORT/PROTO`},
		{"no output", []string{allowed, "-o", "xml"}, 2, "", "the output is text, json or yaml"},
		{"two sources", []string{allowed, "--dump", "-", "--manifests", shop}, 2, "", "exclude each other: give one of them"},
		{"a node of a dump", []string{allowed, "--dump", "-", "--node", "win-1"}, 2, "", "--node is for --manifests"},
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

// A dump says the same from a file and from stdin; manifests add where the policies are.
func TestTraceSources(t *testing.T) {
	const question = "shop/storefront-0 -> shop/db-0:5432/TCP"
	file := savedDump(t, same)
	dump, err := os.ReadFile(file)
	require.NoError(t, err)
	_, read, _ := command(t, "", "trace", question, "--dump", file)
	_, piped, _ := command(t, string(dump), "trace", question, "--dump", "-")
	require.Equal(t, read, piped)
	require.NotContains(t, read, ".yaml:")
	_, simulated, _ := command(t, "", "trace", question, "--manifests", shop)
	require.Contains(t, simulated, "spec.egress[0] ("+filepath.Join(shop, "21-shop-policies.yaml")+":")
}

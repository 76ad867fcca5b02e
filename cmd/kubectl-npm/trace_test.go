package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/debug"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/cluster"
)

// savedDump saves the dump of an agent that has the shop, as curl does.
func savedDump(t *testing.T, change func(*state.Dump)) (file string) {
	t.Helper()
	d, _, err := cluster.Snapshot(t.Context(), cluster.Options{Manifests: []string{shop}})
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

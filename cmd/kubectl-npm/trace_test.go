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

// TestSidecarPorts: the port of a sidecar has a name as well, and tells pods apart.
func TestSidecarPorts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pods.yaml")
	pod := func(name, port string) string {
		return "---\n{apiVersion: v1, kind: Pod, metadata: {name: " + name + ", namespace: s, ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: db, uid: u, controller: true}]}, " +
			"spec: {initContainers: [{name: i, restartPolicy: Always, ports: [{name: metrics, containerPort: " + port + "}]}]}}\n"
	}
	require.NoError(t, os.WriteFile(file, []byte(pod("db-0", "81")+pod("db-1", "82")), 0o600))
	_, out, errs := command(t, "", "trace", "s/db-0", "s/sts/db:metrics", "--manifests", file)
	require.Empty(t, errs)
	require.Contains(t, out, "s/db-0 -> s/db-0:81/TCP")
	require.Contains(t, out, "s/db-0 -> s/db-1:82/TCP")
}

package e2e

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// retry is how long a client may take to try again after the server was away:
// the reflector's pauses grow to half a minute.
const retry = 75 * time.Second

// With the API server away the agent keeps what it has; when the server is
// back it goes on from there, and writes nothing that is already so.
func TestServerAway(t *testing.T) {
	w := newWorld(t)
	w.node("away-1", "192.168.1.1")
	w.namespace("away", "team=away")
	w.pod(pod{namespace: "away", name: "server", node: "away-1", ip: "10.20.0.1", labels: "app=server"})
	w.pod(pod{namespace: "away", name: "friend", node: "away-1", ip: "10.20.0.2", labels: "app=friend"})
	w.pod(pod{namespace: "away", name: "other", node: "away-1", ip: "10.20.0.3", labels: "app=other"})
	w.policy("away", "guard", `
podSelector: {matchLabels: {app: server}}
ingress:
- from: [{podSelector: {matchLabels: {app: friend}}}]
`)
	const before = `
		away/friend->away/server:80/TCP allow
		away/other->away/server:80/TCP deny
	`
	p := newProxy(t)
	a := startAgent(t, "away-1", kubeconfigOf(t, "kube-system", agentAccount, p.url, p.ca))
	a.waitTrace(before)
	writes := a.writes()

	p.cut()
	a.waitUnready()
	a.waitTrace(before)

	p.open(strings.TrimPrefix(p.url, "https://"))
	a.waitReady(retry)
	a.waitTrace(before)
	if now := a.writes(); now != writes {
		t.Errorf("the outage of the API server cost %d writes to HNS", now-writes)
	}

	w.relabelPod("away", "other", "app=friend")
	w.relabelPod("away", "friend", "app=other")
	a.waitTraceFor(retry, `
		away/friend->away/server:80/TCP deny
		away/other->away/server:80/TCP allow
	`)
}

// A server that gives no full list ends the agent within 20 s, with one line
// that names the kubeconfig and says why.
func TestUnusableServer(t *testing.T) {
	w := newWorld(t)
	w.namespace("rightless", "")
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, gone.Close())
	mute, err := net.Listen("tcp", "127.0.0.1:0") // accepts, never answers
	require.NoError(t, err)
	t.Cleanup(func() { _ = mute.Close() })
	stranger := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(stranger.Close)
	strangerCA := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: stranger.Certificate().Raw})

	account := func(url string, ca []byte) string { return kubeconfigOf(t, "kube-system", agentAccount, url, ca) }
	for _, c := range []struct {
		name, kubeconfig string
		says             []string
	}{
		{"nobody listens", account("https://"+gone.Addr().String(), admin.CAData), []string{gone.Addr().String(), "refused"}},
		{"no answer", account("https://"+mute.Addr().String(), admin.CAData), []string{"no answer"}},
		{"not the cluster's certificate", account(admin.Host, strangerCA), []string{"certificate"}},
		{"not an API server", account(stranger.URL, strangerCA), []string{"could not find the requested resource"}},
		{"no rights", kubeconfigOf(t, "rightless", "default", admin.Host, admin.CAData), []string{"forbidden", "system:serviceaccount:rightless:default"}},
		{"no file", filepath.Join(t.TempDir(), "missing"), []string{"no such file"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			command := exec.CommandContext(ctx, filepath.Join(bin, "kubectl-npm"), "simulate", "--kubeconfig", c.kubeconfig, "--node", "n", "--once")
			var stdout, stderr bytes.Buffer
			command.Stdout, command.Stderr = &stdout, &stderr
			err := command.Run()
			require.NoError(t, ctx.Err(), "it still ran after 20 s and had said:\n%s", &stderr)
			var exit *exec.ExitError
			require.True(t, errors.As(err, &exit), "it ended with %v and said:\n%s%s", err, &stdout, &stderr)
			require.Equal(t, 1, exit.ExitCode(), stderr.String())
			require.Empty(t, stdout.String())
			said := stderr.String()
			require.Equal(t, 1, strings.Count(said, "\n"), "more or less than one line:\n%s", said)
			for _, word := range append(c.says, c.kubeconfig) {
				require.Contains(t, said, word)
			}
		})
	}
}

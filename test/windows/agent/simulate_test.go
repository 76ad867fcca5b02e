//go:build linux

package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/tool/manifest"
	"github.com/winnpm/winnpm/tool/simulate"
)

const examples = "../../../examples/shop"

// The same manifests are the same sets and the same policies of every pod,
// through "kubectl npm simulate" here and through npm.exe in front of an API server.
func TestSameAsSimulate(t *testing.T) {
	p := begin(t)
	own := serverNamespaces(t, p.kube)
	objects, _, err := manifest.Load([]string{examples, own}, manifest.Options{Node: ownNode})
	require.NoError(t, err)

	h := newHost(t, azure())
	w := newWorld(t)
	w.load(h, objects)
	n := start(t, ownNode, h.addr, options{})
	n.waitReady()
	want := simulated(t, filepath.Join(p.bin, "kubectl-npm"), examples, own)
	require.Greater(t, len(want), 20)
	h.waitState(func() []string { return want })
	t.Logf("%d lines agree", len(want))
}

// serverNamespaces writes a manifest of the namespaces that an API server makes
// itself.
func serverNamespaces(t *testing.T, k *kube) string {
	t.Helper()
	c, err := k.cluster(t.Context())
	require.NoError(t, err)
	var text strings.Builder
	for _, ns := range c.Namespaces {
		fmt.Fprintf(&text, "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n", ns.Name)
	}
	path := filepath.Join(t.TempDir(), "namespaces.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text.String()), 0o600))
	return path
}

// simulated returns what kubectl npm simulate programs on the own node, in the words of
// host.state.
func simulated(t *testing.T, npm string, manifests ...string) []string {
	t.Helper()
	args := []string{"simulate", "--once", "--node", ownNode, "-o", "json"}
	for _, path := range manifests {
		args = append(args, "--manifests", path)
	}
	cmd := exec.CommandContext(t.Context(), npm, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	var got struct {
		Sets      []simulate.Set
		Endpoints []simulate.Endpoint
	}
	require.NoError(t, json.Unmarshal(out, &got))
	var lines []string
	for _, s := range got.Sets {
		lines = append(lines, setLine(hns.SetPolicy{ID: s.ID, Name: s.Name, Type: s.Type, Values: s.Values}))
	}
	for _, e := range got.Endpoints {
		addrs := []netip.Addr{netip.MustParseAddr(e.IP)}
		for _, acl := range e.ACLs {
			lines = append(lines, aclLine(addrs, acl))
		}
		for _, settings := range e.Foreign {
			lines = append(lines, foreignLine(addrs, hns.EndpointPolicy{Type: hns.PolicyTypeACL, Settings: settings}))
		}
	}
	slices.Sort(lines)
	return lines
}

// load puts objects into the API server, without what only a server gives, and
// plugs the endpoints of the own node's pods.
func (w *world) load(h *host, o manifest.Objects) {
	w.t.Helper()
	ctx := w.t.Context()
	for _, node := range o.Nodes {
		i := slices.IndexFunc(node.Status.Addresses, func(a corev1.NodeAddress) bool { return a.Type == corev1.NodeInternalIP })
		w.node(node.Name, node.Status.Addresses[i].Address)
	}
	there, err := w.kube.cluster(ctx)
	require.NoError(w.t, err)
	for _, ns := range o.Namespaces {
		if slices.ContainsFunc(there.Namespaces, func(have corev1.Namespace) bool { return have.Name == ns.Name }) {
			w.borrow(ns.Name)
			continue
		}
		w.namespace(ns.Name, ns.Labels)
	}
	for _, p := range o.Pods {
		status := p.Status
		p.ObjectMeta = metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace, Labels: p.Labels}
		require.NoError(w.t, w.kube.create(ctx, pods, p.Namespace, p))
		if p.Spec.NodeName == ownNode && !p.Spec.HostNetwork && status.PodIP != "" {
			h.plug(netip.MustParseAddr(status.PodIP))
		}
		body, err := json.Marshal(map[string]corev1.PodStatus{"status": status})
		require.NoError(w.t, err)
		require.NoError(w.t, w.kube.patch(ctx, pods, p.Namespace, p.Name, "status", string(body)))
	}
	for _, np := range o.Policies {
		np.ObjectMeta = metav1.ObjectMeta{Name: np.Name, Namespace: np.Namespace}
		require.NoError(w.t, w.kube.create(ctx, policies, np.Namespace, np))
	}
}

// borrow prepares a namespace that the server made itself, and empties it
// when the test ends.
func (w *world) borrow(name string) {
	w.t.Helper()
	w.account(name)
	w.t.Cleanup(func() { require.NoError(w.t, w.kube.empty(context.Background(), name)) })
}

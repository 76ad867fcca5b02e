//go:build linux

package agent

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// leftBehind is a cluster, its policies and what Azure NPM made of them; TestAdoptionFile of pkg/dataplane writes it.
const leftBehind = "../../../pkg/dataplane/testdata/adoption/azure-npm.txtar"

// npm.exe starts for the first time on a node of Azure NPM, with the same
// policies: its rules come, those of Azure NPM and the sets that nobody needs go,
// and no verdict moves.
func TestTakesOverFromAzureNPM(t *testing.T) {
	archive, err := txtar.ParseFile(leftBehind)
	require.NoError(t, err)
	file := func(name string) string {
		t.Helper()
		i := slices.IndexFunc(archive.Files, func(f txtar.File) bool { return f.Name == name })
		require.GreaterOrEqual(t, i, 0, name)
		return string(archive.Files[i].Data)
	}
	w := newWorld(t)
	var nodeAddr netip.Addr
	fresh := newHost(t, azure())
	for line := range strings.Lines(string(archive.Comment)) {
		switch words := strings.Fields(line); words[0] {
		case "node":
			nodeAddr = netip.MustParseAddr(words[1])
			w.node(ownNode, words[1])
		case "namespace":
			w.namespace(words[1], labelsOf(words[2:]))
		case "pod":
			p := pod{node: ownNode, addr: netip.MustParseAddr(words[2]), labels: labelsOf(words[3:])}
			p.namespace, p.name, _ = strings.Cut(words[1], "/")
			if slices.Contains(words, "remote") {
				p.node = otherNode
			} else {
				fresh.plug(p.addr)
			}
			require.NoError(t, w.kube.makePod(t.Context(), p))
		case "policy":
			var np networkingv1.NetworkPolicy
			require.NoError(t, yaml.UnmarshalStrict([]byte(file(words[1])), &np))
			require.NoError(t, w.kube.create(t.Context(), policies, np.Namespace, &np))
		default:
			require.FailNow(t, "a line of another script", line)
		}
	}
	n := start(t, ownNode, fresh.addr, options{})
	n.waitReady()
	n.kill()
	h := newHost(t, azure())
	h.adopt(file("hns"))
	c := h.known(w.kube, nodeAddr)
	sum, wrong := h.compare(c)
	require.Empty(t, wrong, "Azure NPM means the same")
	inTheBlock := netip.MustParseAddr("10.9.0.1")
	h.watch(h.probes(c, inTheBlock))

	n = start(t, ownNode, h.addr, options{})
	n.waitReady()
	h.waitVerdicts(w.kube, nodeAddr)
	for addr := range h.endpoints {
		for _, acl := range h.ours(addr) {
			require.NotContains(t, []string{"azure-acl-x-web", "azure-acl-x-db"}, acl.ID)
		}
	}
	eventually(t, settle, func() string { return difference(fresh.setNames(), h.setNames()) })
	require.Empty(t, moves(h.Sim().Transitions()))
	t.Logf("%d packets allowed, %d denied; %d writes, 0 transitions", sum.allowed, sum.denied, h.Sim().Writes())
}

// adopt gives HNS the sets and endpoints of a file.
func (h *host) adopt(dump string) {
	h.t.Helper()
	var left struct {
		Sets      []hns.SetPolicy
		Endpoints []hnssim.EndpointView
	}
	require.NoError(h.t, json.Unmarshal([]byte(dump), &left))
	for _, kind := range []hns.SetType{hns.IPSet, hns.NestedIPSet} {
		for _, s := range left.Sets {
			if s.Type == kind {
				require.NoError(h.t, h.Sim().PutSet(s))
			}
		}
	}
	for _, e := range left.Endpoints {
		h.plug(e.Addrs...)
		require.NoError(h.t, h.Sim().SetPolicies(h.endpoints[e.Addrs[0]], e.Policies))
	}
}

// setNames returns the names of the sets in HNS.
func (h *host) setNames() []string {
	var names []string
	for _, s := range h.Sim().Sets() {
		names = append(names, s.Name)
	}
	return names
}

// labelsOf returns the labels among the words of a script.
func labelsOf(words []string) map[string]string {
	labels := map[string]string{}
	for _, w := range words {
		if key, value, ok := strings.Cut(w, "="); ok {
			labels[key] = value
		}
	}
	return labels
}

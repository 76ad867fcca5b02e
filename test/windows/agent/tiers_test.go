//go:build linux

package agent

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
	"sigs.k8s.io/yaml"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/test/servers"
)

// kindComes is how long npm.exe may take to see that the server has a kind now: it asks
// every 30 to 36 s.
const kindComes = 36*time.Second + settle

// Pods beside those of the shop: idle, which no NetworkPolicy isolates, and one each of
// two other teams, elsewhere. The last three are addresses of nodes, and one of nobody.
var (
	idlePod    = pod{namespace: "shop", name: "idle", node: ownNode, addr: addr(20), labels: map[string]string{"app": "idle"}, ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}}}
	labPod     = pod{namespace: "lab", name: "board", node: otherNode, addr: addr(21)}
	scraperPod = pod{namespace: "infra", name: "scraper", node: otherNode, addr: addr(22)}
	thisNode   = pod{addr: ownAddr}
	nextNode   = pod{addr: ownAddr.Next()}
	noNode     = pod{addr: ownAddr.Next().Next()}
)

// Policies of the three tiers; the shop's own, from-web, is the fourth.
const (
	toWeb = `{podSelector: {matchLabels: {app: web}}, ingress: [{}]}`

	platform = `
tier: Admin
priority: 10
subject: {namespaces: {matchLabels: {team: red}}}
ingress:
- {action: Accept, from: [{namespaces: {matchLabels: {team: infra}}}], protocols: [{tcp: {destinationPort: {number: 443}}}]}
- {action: Deny, from: [{namespaces: {matchLabels: {team: blue}}}], protocols: [{tcp: {destinationPort: {number: 443}}}]}
- {action: Pass, from: [{pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: far}}}}], protocols: [{tcp: {destinationPort: {number: 80}}}]}
- {action: Deny, from: [{pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: far}}}}]}
egress:
- {action: Deny, to: [{nodes: {}}], protocols: [{tcp: {destinationPort: {number: 443}}}]}
- {action: Deny, to: [{networks: [172.16.5.4/32]}], protocols: [{tcp: {destinationPort: {number: 80}}}]}
`
	byDefault = `
tier: Baseline
priority: 0
subject: {namespaces: {matchLabels: {team: red}}}
ingress:
- {action: Accept, from: [{pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: web}}}}], protocols: [{destinationNamedPort: http}]}
- {action: Accept, from: [{pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: far}}}}]}
- {action: Deny, from: [{namespaces: {}}]}
`
)

// tierVerdicts are packets over TCP. Each row fails when the tier that it names does not
// decide as it says, whatever the tiers below say.
var tierVerdicts = []struct {
	why      string
	from, to pod
	port     uint16
	allowed  bool
}{
	{"Admin accepts, above the NetworkPolicy that isolates", scraperPod, dbPod, 443, true},
	{"Admin accepts, above Baseline", scraperPod, idlePod, 443, true},
	{"Admin denies, above the NetworkPolicy that allows", labPod, webPod, 443, false},
	{"Admin says nothing of this port, the NetworkPolicy allows, above Baseline", labPod, webPod, 80, true},
	{"Admin passes, the NetworkPolicy allows", farPod, webPod, 80, true},
	{"Admin passes, the NetworkPolicy isolates, above Baseline that accepts", farPod, dbPod, 80, false},
	{"Admin passes, Baseline accepts", farPod, idlePod, 80, true},
	{"Admin passes another port, and denies", farPod, webPod, 443, false},
	{"Admin passes another port, and denies, above Baseline that accepts", farPod, idlePod, 443, false},
	{"the NetworkPolicy allows, above Baseline", webPod, dbPod, 80, true},
	{"the NetworkPolicy isolates", stranger, dbPod, 80, false},
	{"Baseline accepts a named port", webPod, idlePod, 8080, true},
	{"Baseline denies another port", webPod, idlePod, 80, false},
	{"Baseline denies", labPod, idlePod, 80, false},
	{"nobody says anything of an address outside", stranger, idlePod, 80, true},
	{"the node comes in, above the NetworkPolicy that isolates", thisNode, dbPod, 443, true},
	{"Admin denies a network", webPod, stranger, 80, false},
	{"Admin does not deny another port of it", webPod, stranger, 443, true},
	{"Admin denies nodes", webPod, nextNode, 443, false},
	{"Admin denies the own node, too", idlePod, thisNode, 443, false},
	{"Admin does not deny an address beside", webPod, noNode, 443, true},
}

// HNS ends with rules that have each tier decide what is its own, under an npm.exe that
// began without the CRD. A restart writes nothing. When the CRD goes everything is as it
// was before, and nothing more happens.
func TestThreeTiers(t *testing.T) {
	begin(t)
	h := newHost(t, azure())
	w := shop(t, h)
	w.node(otherNode, nextNode.addr.String())
	w.namespace("lab", map[string]string{"team": "blue"})
	w.namespace("infra", map[string]string{"team": "infra"})
	h.plug(idlePod.addr)
	w.pods([]pod{idlePod, labPod, scraperPod})
	w.policy("shop", "to-web", toWeb)
	n := start(t, ownNode, h.addr, options{flags: hurried})
	n.waitReady()
	h.waitVerdicts(w.kube, ownAddr)
	before := h.state()
	require.Contains(t, n.said(), "the API server has no ClusterNetworkPolicies, asking it now and then")
	require.NotEmpty(t, h.misjudged(), "without tiers not everything is so")

	remove := w.clusterKind()
	w.clusterPolicy("platform", platform)
	w.clusterPolicy("default", byDefault)
	began := time.Now()
	eventually(t, kindComes, h.misjudged)
	t.Logf("the CRD came: in force after %v", time.Since(began).Round(time.Second))
	sum := h.waitVerdicts(w.kube, ownAddr)
	n.waitReady()
	require.Empty(t, n.dump().Warnings)
	require.Empty(t, h.Failed())
	h.waitHandles()
	tiered := h.state()

	h.watch(h.probes(h.known(w.kube, ownAddr)))
	for _, hard := range []bool{true, false} {
		n = n.restart(h, hard)
		always(t, 2*hurriedInterval, h.touched)
		require.Equal(t, tiered, h.state())
	}
	t.Logf("%d probes that are allowed and %d that are denied, 2 restarts: 0 writes", sum.allowed, sum.denied)

	remove()
	h.waitState(func() []string { return before })
	h.waitVerdicts(w.kube, ownAddr)
	require.NotEmpty(t, h.misjudged())
	const gone = "the API server has no ClusterNetworkPolicies any more"
	eventually(t, settle, func() string {
		if !strings.Contains(n.said(), gone) {
			return "npm.exe does not say that the CRD has gone"
		}
		return n.check("/readyz")
	})
	h.watch(h.probes(h.known(w.kube, ownAddr)))
	always(t, 3*time.Second, func() string { return h.touched() + n.check("/readyz") })
	said := n.said()
	require.Equal(t, 1, strings.Count(said, gone))
	for _, trouble := range []string{"Failed to watch", `"level":"warn"`, `"level":"error"`} {
		require.NotContains(t, said, trouble)
	}
}

// misjudged is text about every packet of tierVerdicts that HNS does not judge so, "" for
// none.
func (h *host) misjudged() string {
	var text strings.Builder
	for _, v := range tierVerdicts {
		p := h.incoming(v.from, v.to, v.port)
		if p.Endpoint == "" { // it leaves a pod of this node
			p.Endpoint, p.Direction = h.endpoints[v.from.addr], hns.Out
		}
		if got := h.Sim().Ask(p)[0]; got == hnsfault.Unanswered || (got == hnsfault.Allowed) != v.allowed {
			by, _ := h.Sim().Trace(p.Endpoint, p.Direction, p.Packet)
			fmt.Fprintf(&text, "%s: %v %+v: %v, by %v\n", v.why, p.Direction, p.Packet, got, by.Matched)
		}
	}
	return text.String()
}

// clusterKind gives the server the CRD of ClusterNetworkPolicy until remove is called, or
// the test ends. Both wait until the server does as told.
func (w *world) clusterKind() (remove func()) {
	w.t.Helper()
	const crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	crd, err := servers.ClusterPolicyCRD()
	require.NoError(w.t, err)
	api := w.kube.tiers
	list := func() error { return api.Get().Resource(clusterPolicies).Do(context.Background()).Error() }
	require.NoError(w.t, api.Post().AbsPath(crds).Body(crd).Do(w.t.Context()).Error())
	remove = func() {
		err := api.Delete().AbsPath(crds, clusterPolicies+"."+v1alpha2.GroupName).Do(context.Background()).Error()
		if apierrors.IsNotFound(err) {
			return // before
		}
		require.NoError(w.t, err)
		eventually(w.t, settle, func() string {
			if err := list(); !apierrors.IsNotFound(err) {
				return fmt.Sprintf("the server still has the kind: %v", err)
			}
			return ""
		})
	}
	w.t.Cleanup(remove)
	eventually(w.t, settle, func() string {
		if err := list(); err != nil {
			return err.Error()
		}
		return ""
	})
	return remove
}

// clusterPolicy creates a ClusterNetworkPolicy from the text of its spec. It goes with its
// kind.
func (w *world) clusterPolicy(name, spec string) {
	w.t.Helper()
	cnp := &v1alpha2.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	require.NoError(w.t, yaml.UnmarshalStrict([]byte(spec), &cnp.Spec))
	require.NoError(w.t, w.kube.create(w.t.Context(), clusterPolicies, "", cnp))
}

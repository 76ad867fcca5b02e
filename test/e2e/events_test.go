package e2e

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/winnpm/winnpm/test/servers"
)

// startTeller is startAgent with the rights of deploy/ and through a proxy.
func startTeller(t *testing.T, node string) *proxy {
	t.Helper()
	p := newProxy(t)
	startAgent(t, node, kubeconfigOf(t, "kube-system", agentAccount, p.url, p.ca))
	return p
}

// eventsOf returns the Events of a namespace, oldest first.
func (w *world) eventsOf(namespace string) []eventsv1.Event {
	w.t.Helper()
	list, err := w.kube.EventsV1().Events(namespace).List(w.t.Context(), metav1.ListOptions{})
	require.NoError(w.t, err)
	slices.SortFunc(list.Items, func(a, b eventsv1.Event) int { return a.EventTime.Compare(b.EventTime.Time) })
	return list.Items
}

// waitEvents waits until a namespace has these Events: "Type policy Reason".
func (w *world) waitEvents(namespace, want string) []eventsv1.Event {
	w.t.Helper()
	var items []eventsv1.Event
	servers.Eventually(w.t, settle, func() string {
		items = w.eventsOf(namespace)
		var have []string
		for _, e := range items {
			have = append(have, fmt.Sprintf("%s %s %s", e.Type, e.Regarding.Name, e.Reason))
		}
		slices.Sort(have)
		return difference(lines(want), have)
	})
	return items
}

// A policy that Windows cannot do in full has an Event that says so, one for the
// whole cluster, and one more when it was mended. The rights of deploy/ are
// enough for it.
func TestEventsOnPolicies(t *testing.T) {
	w := newWorld(t)
	w.node("teller-1", "192.168.5.1")
	w.node("teller-2", "192.168.5.2")
	w.namespace("told", "")
	const six = `
podSelector: {}
ingress:
- from: [{ipBlock: {cidr: "fd00::/8"}}]
`
	w.policy("told", "six", six)
	first := startTeller(t, "teller-1")
	e := w.waitEvents("told", `Warning six IPv6Peer`)[0]
	object, err := w.kube.NetworkingV1().NetworkPolicies("told").Get(t.Context(), "six", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, corev1.ObjectReference{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy", Namespace: "told", Name: "six", UID: object.UID}, e.Regarding)
	require.Equal(t, &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: "teller-1"}, e.Related)
	require.Equal(t, "Program winnpm teller-1", e.Action+" "+e.ReportingController+" "+e.ReportingInstance)
	for _, part := range []string{"teller-1", "spec.ingress[0].from[0].ipBlock.cidr", "fd00::/8"} {
		require.Contains(t, e.Note, part)
	}

	t.Log("as kubectl events lists it")
	seen, err := w.kube.CoreV1().Events("told").List(t.Context(), metav1.ListOptions{FieldSelector: fields.Set{
		"involvedObject.kind": "NetworkPolicy", "involvedObject.name": "six", "involvedObject.uid": string(object.UID),
	}.String()})
	require.NoError(t, err)
	require.Len(t, seen.Items, 1)
	require.Equal(t, e.Note, seen.Items[0].Message)

	t.Log("another node has nothing to add")
	second := startTeller(t, "teller-2")
	servers.Eventually(t, settle, func() string {
		if second.asked("events") == 0 {
			return "the second node has not tried"
		}
		return ""
	})
	w.waitEvents("told", `Warning six IPv6Peer`)

	t.Log("mended")
	w.policy("told", "six", `{podSelector: {}}`)
	servers.Eventually(t, settle, func() string {
		if first.asked("events") < 2 || second.asked("events") < 2 {
			return "not both nodes have told that it passed"
		}
		return ""
	})
	w.waitEvents("told", `
		Normal six Programmed
		Warning six IPv6Peer
	`)

	t.Log("broken as before, it is news; deleted, it is none")
	w.policy("told", "six", six)
	w.waitEvents("told", `
		Normal six Programmed
		Warning six IPv6Peer
		Warning six IPv6Peer
	`)
	w.deletePolicy("told", "six")
	w.policy("told", "last", six)
	w.waitEvents("told", `
		Normal six Programmed
		Warning six IPv6Peer
		Warning six IPv6Peer
		Warning last IPv6Peer
	`)
}

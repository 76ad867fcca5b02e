package oracletest

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/winnpm/winnpm/test/oracle"
	"github.com/winnpm/winnpm/test/oracle/gen"
)

// Histories of one address, first found by TestOracle.

var anyPort = []gen.Probe{{Protocol: corev1.ProtocolTCP, Port: 80}}

// isolated returns a cluster in which a policy isolates every pod there is.
func isolated(pods ...corev1.Pod) oracle.Cluster {
	return oracle.Cluster{Pods: pods, Policies: []networkingv1.NetworkPolicy{
		{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "deny"}},
	}}
}

func localPod(uid, name, addr string, age time.Duration) corev1.Pod {
	created := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(-age))
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: types.UID(uid), CreationTimestamp: created},
		Spec:       corev1.PodSpec{NodeName: gen.Node},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, PodIP: addr},
	}
}

// An address is used again after its first endpoint went, and the new
// endpoint comes after the news of its pod.
func TestLateEndpointOfReusedAddress(t *testing.T) {
	var coverage gen.Coverage
	w := newWorld(t, setup{})
	first := isolated(localPod("1", "first", "10.0.0.1", time.Hour))
	w.start(first, false)
	w.change(first, isolated(), true, false)
	second := isolated(localPod("2", "second", "10.0.0.1", 0))
	w.change(isolated(), second, true, false)
	w.compare(second, anyPort, &coverage)
}

// A pod of the node claims the address of an older claim that stands: its
// endpoint is one of the address all the same.
func TestEndpointOfLosingClaim(t *testing.T) {
	var coverage gen.Coverage
	w := newWorld(t, setup{})
	winner := localPod("1", "winner", "10.0.0.1", 0)
	before := isolated(winner)
	w.start(before, false)
	after := isolated(winner, localPod("2", "loser", "10.0.0.1", time.Hour))
	w.change(before, after, false, false)
	w.compare(after, anyPort, &coverage)
}

// The same for a pod that laid no claim before: it shared the node's address, or
// had given its own up.
func TestEndpointOfLateLosingClaim(t *testing.T) {
	var coverage gen.Coverage
	w := newWorld(t, setup{})
	winner, loser := localPod("1", "winner", "10.0.0.1", 0), localPod("2", "loser", "10.0.0.1", time.Hour)
	idle := loser
	idle.Status.Phase = corev1.PodSucceeded
	before := isolated(winner, idle)
	w.start(before, false)
	after := isolated(winner, loser)
	w.change(before, after, false, false)
	w.compare(after, anyPort, &coverage)
}

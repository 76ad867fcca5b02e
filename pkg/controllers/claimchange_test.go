package controllers

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/winnpm/winnpm/test/hnsfault"
)

// denies is a policy that isolates the pods with labels.
func denies(name string, labels map[string]string) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: name},
		Spec:       networkingv1.NetworkPolicySpec{PodSelector: metav1.LabelSelector{MatchLabels: labels}},
	}
}

// TestClaimWhileThingsChange: what the agent learns before its answer is in force when it
// answers.
func TestClaimWhileThingsChange(t *testing.T) {
	for name, change := range map[string]func(n claiming){
		"a label": func(n claiming) {
			p := scheduled("a")
			p.Labels = map[string]string{"closed": "yes"}
			n.cluster.pods.set(p)
		},
		"a policy": func(n claiming) { n.cluster.policies.set(denies("late", map[string]string{"app": "a"})) },
	} {
		for _, early := range []bool{false, true} {
			during := map[bool]string{false: "waits for its endpoint", true: "is written"}[early]
			t.Run(name+" while it "+during, func(t *testing.T) {
				cl := newCluster(scheduled("a"))
				cl.policies.set(denies("deny", map[string]string{"closed": "yes"}))
				runClaims(t, cl, func(n claiming) {
					n.sim.SetPersonality(hnsfault.Personality{Early: true, Latency: 100 * time.Millisecond})
					if early {
						n.endpoint("ep-a", "10.0.0.1")
					}
					done := n.later(claimOf("a", "s1", "10.0.0.1"))
					time.Sleep(150 * time.Millisecond)
					change(n)
					synctest.Wait()
					if !early {
						n.endpoint("ep-a", "10.0.0.1")
					}
					require.NoError(n.t, <-done)
					require.False(n.t, n.open("ep-a", "10.0.0.1"))
				})
			})
		}
	}
}

// TestClaimAgainstAnOldAddress: a pod whose address in the API is old does not get the
// endpoint of one whose CNI told of it, also after the API server knows that one's address.
func TestClaimAgainstAnOldAddress(t *testing.T) {
	at := func(s int) *metav1.Time { return &metav1.Time{Time: time.Date(2000, 1, 1, 0, 0, s, 0, time.UTC)} }
	cl := newCluster()
	b := scheduled("b")
	b.Labels = map[string]string{"app": "b"}
	b.Status.StartTime = at(-100)
	cl.pods.set(b)
	a := newPod("a", "10.0.0.1")
	a.Status.StartTime = at(-50)
	a.Labels = map[string]string{"free": "yes"}
	cl.pods.set(a)
	cl.policies.set(denies("deny", map[string]string{"app": "b"}))
	runClaims(t, cl, func(n claiming) {
		n.endpoint("ep-b", "10.0.0.1")
		_, err := n.claim(claimOf("b", "s1", "10.0.0.1"))
		require.NoError(n.t, err)
		require.False(n.t, n.open("ep-b", "10.0.0.1"))
		told := b.DeepCopy()
		told.Status.PodIP = "10.0.0.1"
		n.cluster.pods.set(told)
		time.Sleep(time.Minute)
		require.False(n.t, n.open("ep-b", "10.0.0.1"))
	})
}

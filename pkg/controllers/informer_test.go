package controllers

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// latePolicies writes a policy in each round, after between, and returns the longest time until the
// agent had one.
func latePolicies(c *Controller, cl *cluster, rounds int, between func(round int)) (longest time.Duration) {
	for i := range rounds {
		between(i)
		p := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: fmt.Sprint("q", i)}}
		cl.policies.set(p)
		began := time.Now()
		for synctest.Wait(); c.policies.get(cache.ObjectName{Namespace: "other", Name: p.Name}) == nil; synctest.Wait() {
			time.Sleep(100 * time.Millisecond)
			cl.policies.change(p, watch.Added, true) // a new watch begins with what the last one missed
		}
		longest = max(longest, time.Since(began))
		time.Sleep(500 * time.Millisecond)
	}
	return longest
}

// TestRoomDelaysNobody: a tenant whose policies go over and under their limit causes lists, and
// policies of other tenants do not wait for these.
func TestRoomDelaysNobody(t *testing.T) {
	cl, r := newCluster(), &recorder{}
	for i := range 3 {
		cl.policies.set(ofRules("x", fmt.Sprint("p", i), 4, 0))
	}
	run(t, Config{Source: cl.source(), Applier: r, Budgets: few}, func(t *testing.T, c *Controller) {
		listed := cl.policies.listed()
		longest := latePolicies(c, cl, 1000, func(round int) {
			if round%2 == 0 {
				cl.policies.remove(ofRules("x", "p0", 4, 0))
			} else {
				cl.policies.set(ofRules("x", "p0", 4, 0))
			}
		})
		require.Greater(t, cl.policies.listed(), listed+5)
		require.Less(t, longest, 3*time.Second)
	})
}

// TestShortWatches: watches that end within a second, with events, are no failures.
func TestShortWatches(t *testing.T) {
	cl, r := newCluster(), &recorder{}
	run(t, Config{Source: cl.source(), Applier: r}, func(t *testing.T, c *Controller) {
		require.Less(t, latePolicies(c, cl, 200, func(round int) {
			if round > 0 { // the first watch has had an event by then
				cl.policies.endWatches()
			}
		}), time.Second)
	})
}

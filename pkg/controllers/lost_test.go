package controllers

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/winnpm/winnpm/pkg/desired"
)

// TestLostPods: a pod that is deleted, or missing from a list, becomes a lost pod unless it had
// finished, even if the worker never saw the finished state. A lost pod ends without an event.
func TestLostPods(t *testing.T) {
	finished := func(p *corev1.Pod) *corev1.Pod {
		p.Status.Phase = corev1.PodSucceeded
		return p
	}
	for name, tt := range map[string]struct {
		pod  *corev1.Pod
		end  func(n claiming)
		lost bool
	}{
		"deleted":            {pod: newRemotePod("a", "10.0.0.1"), end: func(n claiming) { n.cluster.pods.remove(newRemotePod("a", "10.0.0.1")) }, lost: true},
		"without an address": {pod: newRemotePod("a", ""), end: func(n claiming) { n.cluster.pods.remove(newRemotePod("a", "")) }},
		"finished and deleted at once": {pod: newRemotePod("a", "10.0.0.1"), end: func(n claiming) {
			n.cluster.pods.set(finished(newRemotePod("a", "10.0.0.1")))
			n.cluster.pods.remove(finished(newRemotePod("a", "10.0.0.1")))
		}},
		"finished by the word of its end": {pod: newRemotePod("a", "10.0.0.1"), end: func(n claiming) { n.cluster.pods.remove(finished(newRemotePod("a", "10.0.0.1"))) }},
		"finished and replaced in one go": {pod: newRemotePod("a", "10.0.0.1"), end: func(n claiming) {
			n.cluster.pods.remove(finished(newRemotePod("a", "10.0.0.1")))
			n.cluster.pods.set(another(newRemotePod("a", "10.0.0.2")))
		}},
		"replaced by one that finishes and goes": {pod: newRemotePod("a", "10.0.0.1"), end: func(n claiming) {
			n.cluster.pods.remove(newRemotePod("a", "10.0.0.1"))
			n.cluster.pods.set(finished(another(newRemotePod("a", ""))))
			n.cluster.pods.remove(finished(another(newRemotePod("a", ""))))
		}, lost: true},
		"replaced by one that is elsewhere": {pod: newRemotePod("a", "10.0.0.1"), end: func(n claiming) {
			n.cluster.pods.remove(newRemotePod("a", "10.0.0.1"))
			n.cluster.pods.set(another(newRemotePod("a", "10.0.0.2")))
		}, lost: true},
	} {
		t.Run(name, func(t *testing.T) {
			runClaims(t, newCluster(tt.pod), func(n claiming) {
				time.Sleep(time.Second)
				tt.end(n)
				synctest.Wait()
				time.Sleep(time.Minute)
				require.Equal(t, tt.lost, n.lost())
				time.Sleep(time.Minute)
				require.False(t, n.lost())
			})
		})
	}
}

// lost reports whether the dataplane has a lost pod.
func (n claiming) lost() bool {
	for _, p := range n.dp.Dump().Pods {
		if !p.LostUntil.IsZero() && strings.HasPrefix(p.Pod, "x/a (deleted") {
			return true
		}
	}
	return false
}

// another changes the UID of a pod.
func another(p *corev1.Pod) *corev1.Pod {
	p.UID = "another"
	return p
}

// TestEndIsRecordedBeforeThePodIsMissing: a worker that misses a deleted pod finds out that it had finished.
func TestEndIsRecordedBeforeThePodIsMissing(t *testing.T) {
	c := New(Config{Source: newCluster().source(), Applier: &recorder{}, Node: "n1"})
	pod := newRemotePod("a", "10.0.0.1")
	_, err := c.pods.apply(watch.Event{Type: watch.Added, Object: pod})
	require.NoError(t, err)
	end := pod.DeepCopy()
	end.Status.Phase = corev1.PodSucceeded
	var finished any
	c.pods.changed = func(key ObjectKey, _, _ *desired.Pod) { // the store has already dropped the pod
		require.Nil(t, c.pods.get(key.ObjectName))
		finished, _ = c.finished.Load(key.ObjectName)
	}
	_, err = c.pods.apply(watch.Event{Type: watch.Deleted, Object: end})
	require.NoError(t, err)
	require.Equal(t, true, finished)
}

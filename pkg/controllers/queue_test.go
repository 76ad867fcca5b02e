package controllers

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/cache"
)

func TestQueue(t *testing.T) {
	q := newQueue()
	pod, retry := Key{KindPod, cache.ObjectName{Name: "a"}}, Key{Kind: KindRetry}
	first, later := time.Unix(1000, 0), time.Unix(2000, 0)
	waiting := func(want int, most haste) {
		t.Helper()
		keys, is := q.Waiting()
		require.Equal(t, want, keys)
		require.Equal(t, most, is)
	}
	waiting(0, restful)
	q.add(pod, first, restful)
	q.add(pod, later, restful)
	waiting(1, restful)
	<-q.wake
	q.add(Key{KindPod, cache.ObjectName{Name: "b"}}, later, restful)
	require.Empty(t, q.wake, "told once")
	q.Add(retry)
	<-q.wake // it has more haste
	waiting(3, prompt)
	q.add(pod, later, urgent)
	<-q.wake
	q.add(retry, later, prompt)
	require.Empty(t, q.wake)
	waiting(3, urgent)
	require.Equal(t, map[Key]time.Time{pod: first, {KindPod, cache.ObjectName{Name: "b"}}: later, retry: later}, q.Take())
	waiting(0, restful)
	q.add(pod, later, restful)
	<-q.wake
	require.Equal(t, map[Key]time.Time{pod: later}, q.Take())
}

package controllers

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestQueue(t *testing.T) {
	q := newQueue()
	pod, retry := Key{Kind: KindPod, Name: "a"}, Key{Kind: KindRetry}
	first, later := time.Unix(1000, 0), time.Unix(2000, 0)
	q.Add(retry)
	q.AddEvent(pod, first, restful)
	q.AddEvent(pod, later, restful)
	require.Equal(t, 2, q.Len())
	<-q.Some()
	require.Empty(t, q.Some(), "told once")
	q.AddEvent(retry, later, prompt)
	require.Len(t, q.Some(), 1, "and again of what came later")
	require.Equal(t, map[Key]time.Time{pod: first, retry: later}, q.Take())
	require.Empty(t, q.Some(), "nothing waits")
	require.Zero(t, q.Len())
	q.AddEvent(pod, later, restful)
	<-q.Some()
	require.Equal(t, map[Key]time.Time{pod: later}, q.Take())
}

func TestQueueHurries(t *testing.T) {
	q := newQueue()
	pod, retry := Key{Kind: KindPod, Name: "a"}, Key{Kind: KindRetry}
	first, later := time.Unix(1000, 0), time.Unix(2000, 0)
	q.AddEvent(pod, first, restful)
	require.Equal(t, restful, q.Haste())
	require.Empty(t, q.Hurry())
	q.Add(retry)
	require.Equal(t, prompt, q.Haste())
	<-q.Hurry()
	q.AddEvent(pod, later, urgent)
	require.Equal(t, urgent, q.Haste())
	require.Len(t, q.Some(), 1)
	<-q.Hurry()
	q.Add(retry)
	require.Equal(t, urgent, q.Haste(), "as long as it waits")
	require.Empty(t, q.Hurry(), "the rest has ended already")
	q.AddEvent(pod, later, urgent)
	require.Equal(t, map[Key]time.Time{pod: first, retry: {}}, q.Take())
	require.Equal(t, restful, q.Haste())
	require.Empty(t, q.Hurry(), "it was taken")
}

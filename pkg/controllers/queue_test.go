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
	q.AddEvent(pod, first)
	q.AddEvent(pod, later)
	require.Equal(t, 2, q.Len())
	<-q.Some()
	require.Empty(t, q.Some(), "told once")
	q.AddEvent(retry, later)
	require.Len(t, q.Some(), 1, "and again of what came later")
	require.Equal(t, map[Key]time.Time{pod: first, retry: later}, q.Take())
	require.Empty(t, q.Some(), "nothing waits")
	require.Zero(t, q.Len())
	q.AddEvent(pod, later)
	<-q.Some()
	require.Equal(t, map[Key]time.Time{pod: later}, q.Take())
}

func TestQueueHurries(t *testing.T) {
	q := newQueue()
	pod, retry := Key{Kind: KindPod, Name: "a"}, Key{Kind: KindRetry}
	first, later := time.Unix(1000, 0), time.Unix(2000, 0)
	q.AddEvent(pod, first)
	require.False(t, q.Urgent())
	require.Empty(t, q.Hurry())
	q.AddUrgent(pod, later)
	q.Add(retry)
	require.True(t, q.Urgent())
	require.Len(t, q.Some(), 1)
	<-q.Hurry()
	require.True(t, q.Urgent(), "as long as it waits")
	q.AddUrgent(pod, later)
	require.Equal(t, map[Key]time.Time{pod: first, retry: {}}, q.Take())
	require.False(t, q.Urgent())
	require.Empty(t, q.Hurry(), "it was taken")
}

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

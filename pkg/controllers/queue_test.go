package controllers

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestQueue(t *testing.T) {
	q := newQueue()
	pod, retry := Key{Kind: KindPod, Name: "a"}, Key{Kind: KindRetry}
	q.Add(retry)
	q.AddHasty(pod, restful)
	q.AddHasty(pod, restful)
	require.Equal(t, 2, q.Len())
	<-q.Some()
	require.Empty(t, q.Some(), "told once")
	q.AddHasty(retry, prompt)
	require.Len(t, q.Some(), 1, "and again of what came later")
	require.Equal(t, map[Key]bool{pod: true, retry: true}, q.Take())
	require.Empty(t, q.Some(), "nothing waits")
	require.Zero(t, q.Len())
	q.AddHasty(pod, restful)
	<-q.Some()
	require.Equal(t, map[Key]bool{pod: true}, q.Take())
}

func TestQueueHurries(t *testing.T) {
	q := newQueue()
	pod, retry := Key{Kind: KindPod, Name: "a"}, Key{Kind: KindRetry}
	q.AddHasty(pod, restful)
	require.Equal(t, restful, q.Haste())
	require.Empty(t, q.Hurry())
	q.Add(retry)
	require.Equal(t, prompt, q.Haste())
	<-q.Hurry()
	q.AddHasty(pod, urgent)
	require.Equal(t, urgent, q.Haste())
	require.Len(t, q.Some(), 1)
	<-q.Hurry()
	q.Add(retry)
	require.Equal(t, urgent, q.Haste(), "as long as it waits")
	require.Empty(t, q.Hurry(), "the rest has ended already")
	q.AddHasty(pod, urgent)
	require.Equal(t, map[Key]bool{pod: true, retry: true}, q.Take())
	require.Equal(t, restful, q.Haste())
	require.Empty(t, q.Hurry(), "it was taken")
}

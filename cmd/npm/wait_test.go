package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/klog/v2"

	"github.com/winnpm/winnpm/pkg/hns"
)

// networks answers Network with one error after the other, then with success.
type networks struct {
	hns.Client
	answers []error
	calls   int
}

func (n *networks) Network(context.Context) (hns.Network, error) {
	n.calls++
	if n.calls > len(n.answers) {
		return hns.Network{}, nil
	}
	return hns.Network{}, n.answers[n.calls-1]
}

func TestWaitForNetwork(t *testing.T) {
	odd := errors.New("odd")
	for _, tc := range []struct {
		name    string
		answers []error
		want    error
		took    time.Duration
	}{
		{"there", nil, nil, 0},
		{"later", []error{hns.ErrNotFound, hns.ErrUnavailable, hns.ErrUnlisted}, nil, 15 * time.Second},
		{"broken", []error{hns.ErrNotFound, odd}, odd, 5 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				require.ErrorIs(t, waitForNetwork(t.Context(), &networks{answers: tc.answers}, "azure", klog.Logger{}), tc.want)
				require.Equal(t, tc.took, time.Since(began))
			})
		})
	}
}

// It waits for longer than the predecessor's 20 minutes, and ends when told to.
func TestWaitForNetworkEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := make([]error, 10_000)
		for i := range answers {
			answers[i] = hns.ErrNotFound
		}
		client := &networks{answers: answers}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour+time.Second)
		defer cancel()
		began := time.Now()
		require.ErrorIs(t, waitForNetwork(ctx, client, "azure", klog.Logger{}), context.DeadlineExceeded)
		require.Equal(t, time.Hour+time.Second, time.Since(began))
		require.Equal(t, 721, client.calls)
	})
}

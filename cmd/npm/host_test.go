package main

import (
	"context"
	"errors"
	"slices"
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
	for _, tc := range []struct {
		name    string
		answers []error
		want    error
		took    time.Duration
	}{
		{"there", nil, nil, 0},
		{"later", []error{hns.ErrNotFound, hns.ErrUnavailable, hns.ErrUnlisted}, nil, 15 * time.Second},
		{"of no class", []error{hns.ErrNotFound, errors.New("odd")}, nil, 10 * time.Second},
		{"never", slices.Repeat([]error{hns.ErrNotFound}, 10_000), context.DeadlineExceeded, time.Hour}, // the predecessor ended after 20 minutes
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				began := time.Now()
				require.ErrorIs(t, waitForNetwork(ctx, &networks{answers: tc.answers}, "azure", klog.Logger{}), tc.want)
				require.Equal(t, tc.took, time.Since(began))
			})
		})
	}
}

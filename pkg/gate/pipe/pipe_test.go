package pipe

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/klog/v2"

	"github.com/winnpm/winnpm/pkg/gate"
)

func TestAccess(t *testing.T) {
	require.Equal(t, "D:P(A;;GA;;;SY)(A;;GA;;;BA)", access, "protected, for SYSTEM and administrators, and nobody else")
}

type claims chan gate.Claim

func (c claims) Claim(ctx context.Context, claim gate.Claim) error {
	if claim.Name == "never" {
		<-ctx.Done()
		c <- gate.Claim{Name: context.Cause(ctx).Error()}
		return context.Cause(ctx)
	}
	return nil
}

// Over a real pipe the first claim is answered as the others are, many come at once, a
// caller that hangs up is noticed, and the pipe is free for the next agent.
func TestPipe(t *testing.T) {
	path := somewhere(t)
	dial := func(ctx context.Context) (net.Conn, error) { return Dial(ctx, path) }
	claim := gate.Claim{Namespace: "shop", Name: "api", ContainerID: "0c4f", Wait: 20 * time.Second}
	for range 2 {
		l, err := Listen(path)
		require.NoError(t, err)
		ctx, end := context.WithCancel(t.Context())
		ended, came := make(chan error, 1), make(claims)
		go func() { ended <- gate.Serve(ctx, l, came, klog.Background()) }()

		_, err = gate.Ask(t.Context(), dial, claim)
		require.NoError(t, err)
		answers := make(chan error)
		for range 50 {
			go func() {
				_, err := gate.Ask(t.Context(), dial, claim)
				answers <- err
			}()
		}
		for range 50 {
			require.NoError(t, <-answers)
		}

		late := claim
		late.Name, late.Wait = "never", 2*time.Second
		go func() {
			_, err := gate.Ask(t.Context(), dial, late)
			answers <- err
		}()
		require.Equal(t, gate.ErrLate.Error(), (<-came).Name)
		require.ErrorIs(t, <-answers, gate.ErrRefused)

		late.Wait = 20 * time.Second
		hasty, hangUp := context.WithTimeout(t.Context(), 200*time.Millisecond)
		go func() {
			_, err := gate.Ask(hasty, dial, late)
			answers <- err
		}()
		require.Equal(t, gate.ErrHungUp.Error(), (<-came).Name)
		require.ErrorIs(t, <-answers, gate.ErrHung)
		hangUp()

		end()
		require.NoError(t, <-ended)
	}
	nobody, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, gate.Reach(nobody, dial), gate.ErrNoAgent)
}

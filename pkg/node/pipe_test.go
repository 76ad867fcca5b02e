package node

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/klog/v2"
)

func TestPipeAccess(t *testing.T) {
	require.Equal(t, "D:P(A;;GA;;;SY)(A;;GA;;;BA)", pipeAccess, "protected, for SYSTEM and administrators, and nobody else")
}

// claims answers claims. A claim named "refused" fails. One named "hangs" is announced, and answered when its caller
// is gone.
type claims chan Claim

var errRefused = errors.New("no such pod")

func (c claims) Claim(ctx context.Context, claim Claim) error {
	switch claim.Name {
	case "refused":
		return errRefused
	case "hangs":
		c <- claim
		<-ctx.Done()
		c <- Claim{Name: context.Cause(ctx).Error()}
		return context.Cause(ctx)
	}
	return nil
}

// TestPipe asks over a real pipe: the first claim is answered as the others are, many come at
// once, an answer does not wait for the caller, a caller that hangs up is noticed, and the pipe
// is free for the next agent.
func TestPipe(t *testing.T) {
	path := somewhere(t)
	dial := func(ctx context.Context) (net.Conn, error) { return DialPipe(ctx, path) }
	claim := Claim{Namespace: "shop", Name: "api", ContainerID: "0c4f", Wait: time.Minute}
	for range 2 {
		l, err := ListenPipe(path)
		require.NoError(t, err)
		ctx, end := context.WithCancel(t.Context())
		ended, came := make(chan error, 1), make(claims)
		go func() { ended <- Serve(ctx, l, came, klog.Background()) }()

		_, err = Ask(t.Context(), dial, claim)
		require.NoError(t, err)
		answers := make(chan error)
		for range 50 {
			go func() {
				_, err := Ask(t.Context(), dial, claim)
				answers <- err
			}()
		}
		for range 50 {
			require.NoError(t, <-answers)
		}

		refused := claim
		refused.Name = "refused"
		answer, err := Ask(t.Context(), dial, refused)
		require.ErrorIs(t, err, ErrRefused)
		require.Equal(t, Answer{Code: CodeFailed, Reason: errRefused.Error()}, answer)

		hanging := claim
		hanging.Name = "hangs"
		hasty, hangUp := context.WithCancel(t.Context())
		go func() {
			_, err := Ask(hasty, dial, hanging)
			answers <- err
		}()
		require.Equal(t, "hangs", (<-came).Name)
		hangUp()
		require.Equal(t, ErrHungUp.Error(), (<-came).Name)
		require.ErrorIs(t, <-answers, ErrHung)

		end()
		require.NoError(t, <-ended)
	}
	_, err := dial(t.Context())
	require.Error(t, err, "no agent listens")
}

package debug

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/backoff"
	"github.com/winnpm/winnpm/pkg/cli"
	"github.com/winnpm/winnpm/test/switchboard"
)

var errTaken = &net.OpError{Op: "listen", Net: "tcp", Err: os.NewSyscallError("bind", syscall.EADDRINUSE)}

// A taken address is tried again less and less often, for as long as it takes,
// and the log says once that it is taken and who has it.
func TestListenerTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		logger, err := cli.NewLogger(&log, "info")
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		began, tries, opened, free := time.Now(), 0, 0, switchboard.New()
		d := &Listener{
			What: "HTTP endpoint", Address: "0.0.0.0:10091", Keys: "--listen", Logger: logger,
			Listen: func(context.Context, string) (net.Listener, error) {
				if tries++; time.Since(began) < time.Hour {
					return nil, errTaken
				}
				return free, nil
			},
			Opened: func(string) { opened++; cancel() },
		}
		require.NoError(t, d.Run(ctx))
		require.Equal(t, 1, opened)
		_, err = free.Dial(t.Context())
		require.ErrorIs(t, err, switchboard.ErrNobody, "it was served, until the end")
		require.LessOrEqual(t, tries, 6+int(time.Hour/backoff.Longest))
		require.LessOrEqual(t, time.Since(began), time.Hour+backoff.Longest)
		require.Equal(t, 1, strings.Count(log.String(), `"level":"warn"`), log.String())
	})
}

// The wait ends with the program, and an address that is none is an error.
func TestListenerWithoutAnAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		fails := error(errTaken)
		d := &Listener{What: "HTTP endpoint", Keys: "--listen", Listen: func(context.Context, string) (net.Listener, error) { return nil, fails }}
		require.NoError(t, d.Run(ctx))
		require.Error(t, ctx.Err())
		fails = errors.New("no address")
		require.EqualError(t, d.Run(t.Context()), "HTTP endpoint: no address; another address goes into --listen")
	})
}

package node

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/test/switchboard"
)

// Every field arrives, but for a Wait that is over before ours.
func TestAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := switchboard.New()
		var got Claim
		end, _ := serving(t, b, func(_ context.Context, c Claim) error { got = c; return nil })
		want := claimOfTest()
		want.Strict = true
		answer, err := Ask(t.Context(), b.Dial, want)
		require.NoError(t, err)
		require.Equal(t, Answer{Ready: true}, answer)
		want.Wait -= 500 * time.Millisecond
		require.Equal(t, want, got)
		end()
	})
}

func TestAskSaysNo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := switchboard.New()
		end, _ := serving(t, b, never)
		start := time.Now()
		answer, err := Ask(t.Context(), b.Dial, claimOfTest())
		require.ErrorIs(t, err, ErrRefused)
		require.Equal(t, Answer{Code: CodeLate, Reason: "its policies were not in place after 9.5s: the pod waits no longer"}, answer)
		require.Equal(t, 9500*time.Millisecond, time.Since(start))
		end()

		bad := claimOfTest()
		bad.Name = ""
		answer, err = Ask(t.Context(), nil, bad)
		require.ErrorIs(t, err, ErrRefused)
		require.Equal(t, Answer{Code: CodeRefused, Reason: `name "" is none of a pod`}, answer)
	})
}

// Without a good answer Ask ends when the wait is over, not before and not later.
func TestAskEnds(t *testing.T) {
	for name, tc := range map[string]struct {
		agent func(net.Conn) // nil: nobody listens
		want  error
		dials int
	}{
		"nobody":      {nil, ErrNoAgent, 50},
		"hung":        {func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }, ErrHung, 1},
		"reads never": {func(net.Conn) {}, ErrHung, 1},
		"closes":      {func(conn net.Conn) { _ = conn.Close() }, ErrNoAgent, 50},
		"talks":       {say("hello\n"), ErrNoAgent, 50},
		"never ends":  {func(conn net.Conn) { _, _ = io.Copy(conn, endless{}) }, ErrHung, 1}, // it does not even take the claim
		"no code":     {say("{}\n"), ErrRefused, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dials := 0
				dial := func(context.Context) (net.Conn, error) {
					dials++
					if tc.agent == nil {
						return nil, switchboard.ErrNobody
					}
					ours, theirs := net.Pipe()
					go tc.agent(theirs)
					return ours, nil
				}
				claim := claimOfTest()
				claim.Wait = 9900 * time.Millisecond // it ends within a pause
				start := time.Now()
				answer, err := Ask(t.Context(), dial, claim)
				require.ErrorIs(t, err, tc.want)
				require.False(t, answer.Ready)
				require.Equal(t, tc.dials, dials)
				if !errors.Is(err, ErrRefused) {
					require.Equal(t, claim.Wait, time.Since(start))
				}
			})
		})
	}
}

// say reads a claim and answers with text.
func say(text string) func(net.Conn) {
	return func(conn net.Conn) {
		if _, err := bufio.NewReader(conn).ReadBytes('\n'); err == nil {
			_, _ = io.WriteString(conn, text)
		}
		_ = conn.Close()
	}
}

// endless has a line without end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return copy(p, "xxxxxxxx"), nil }

// An agent that restarts keeps a pod waiting for as long as that takes.
func TestAgentRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := switchboard.New(), switchboard.New()
		end, _ := serving(t, first, never)
		start := time.Now()
		var current atomic.Pointer[switchboard.Switchboard]
		current.Store(first)
		asked := make(chan string)
		go func() {
			answer, err := Ask(t.Context(), func(ctx context.Context) (net.Conn, error) { return current.Load().Dial(ctx) }, claimOfTest())
			asked <- fmt.Sprint(answer, err, time.Since(start))
		}()
		time.Sleep(time.Second)
		end()
		time.Sleep(3*time.Second + pause/2)
		current.Store(second)
		end, _ = serving(t, second, ready)
		require.Equal(t, fmt.Sprint(Answer{Ready: true}, nil, 4*time.Second+pause), <-asked)
		end()
	})
}

// Ask ends with its context too, and so does Reach.
func TestAskIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 1100*time.Millisecond)
		defer cancel()
		dial := func(context.Context) (net.Conn, error) { return nil, switchboard.ErrNobody }
		start := time.Now()
		_, err := Ask(ctx, dial, claimOfTest())
		require.ErrorIs(t, err, ErrNoAgent)
		require.ErrorIs(t, err, switchboard.ErrNobody)
		require.Equal(t, 1100*time.Millisecond, time.Since(start))
		require.ErrorIs(t, Reach(ctx, dial), ErrNoAgent)
		require.Equal(t, 1100*time.Millisecond, time.Since(start))
	})
}

package node

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/winnpm/winnpm/test/switchboard"
)

// serving serves claims on l until end is called, which checks that Serve succeeded, or the
// test is over.
func serving(t *testing.T, l net.Listener, claimer claimerFunc) (end func(), log *ktesting.BufferTL) {
	t.Helper()
	log = &ktesting.BufferTL{}
	logger := ktesting.NewLogger(log, ktesting.NewConfig(ktesting.BufferLogs(true)))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, l, claimer, logger) }()
	return func() {
		t.Helper()
		cancel()
		require.NoError(t, <-ended)
	}, log
}

// call says text and returns what is answered until the agent closes.
func call(t *testing.T, b *switchboard.Switchboard, text string) string {
	t.Helper()
	conn, err := b.Dial(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, text)
	require.NoError(t, err)
	answer, err := io.ReadAll(conn)
	require.NoError(t, err)
	return string(answer)
}

func TestAnswers(t *testing.T) {
	claim := claimOfTest()
	late := claim
	late.Wait = 3 * time.Second
	for name, tc := range map[string]struct {
		claimer claimerFunc
		text    string
		want    string
		after   time.Duration
	}{
		"ready":      {ready, line(t, claim), `{"ready":true}`, 0},
		"ready late": {func(ctx context.Context, c Claim) error { _ = never(ctx, c); return nil }, line(t, late), `{"ready":true}`, 3 * time.Second},
		"late":       {never, line(t, late), `{"ready":false,"code":"late","reason":"its policies were not in place after 3s: the pod waits no longer"}`, 3 * time.Second},
		"failed": {func(context.Context, Claim) error { return errors.New("no endpoint\nhere") }, line(t, claim),
			`{"ready":false,"code":"failed","reason":"no endpoint` + "\uFFFD" + `here"}`, 0},
		"refused":    {ready, "{}\n", `{"ready":false,"code":"refused","reason":"namespace \"\" is none of a pod"}`, 0},
		"two claims": {ready, line(t, claim) + line(t, claim), `{"ready":false,"code":"refused","reason":"more than one line"}`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := switchboard.New()
				end, _ := serving(t, b, tc.claimer)
				start := time.Now()
				require.Equal(t, tc.want+"\n", call(t, b, tc.text))
				require.Equal(t, tc.after, time.Since(start))
				end()
			})
		})
	}
}

func line(t *testing.T, c Claim) string {
	t.Helper()
	var text strings.Builder
	require.NoError(t, writeLine(&text, c))
	return text.String()
}

// A caller that hangs up, or says more, ends its claim and nothing else.
func TestCallerHangsUp(t *testing.T) {
	for name, hangUp := range map[string]func(net.Conn){
		"closed":    func(conn net.Conn) { _ = conn.Close() },
		"says more": func(conn net.Conn) { _, _ = conn.Write([]byte{' '}) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := switchboard.New()
				causes := make(chan error, 1)
				end, _ := serving(t, b, func(ctx context.Context, c Claim) error {
					causes <- never(ctx, c)
					return ctx.Err()
				})
				conn, err := b.Dial(t.Context())
				require.NoError(t, err)
				require.NoError(t, writeLine(conn, claimOfTest()))
				time.Sleep(time.Second)
				hangUp(conn)
				require.ErrorIs(t, <-causes, ErrHungUp)
				_ = conn.Close() // for those who say more
				end()
			})
		})
	}
}

// Who says nothing, or does not listen, has five seconds.
func TestSlowCallers(t *testing.T) {
	for name, said := range map[string]string{"says nothing": "", "stops in its claim": "{", "does not listen": "{}\n"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := switchboard.New()
				end, log := serving(t, b, ready)
				conn, err := b.Dial(t.Context())
				require.NoError(t, err)
				defer conn.Close()
				_, err = io.WriteString(conn, said)
				require.NoError(t, err)
				time.Sleep(lineTime*2 + time.Millisecond)
				_, err = conn.Write([]byte{1})
				require.ErrorIs(t, err, io.ErrClosedPipe)
				end()
				require.NotContains(t, log.String(), "Accepting")
			})
		})
	}
}

// Who only looks whether there is an agent costs no line of the log.
func TestProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := switchboard.New()
		end, log := serving(t, b, ready)
		require.NoError(t, Reach(t.Context(), b.Dial))
		end()
		require.Empty(t, log.String())
	})
}

// 256 claims are served at once; the next one waits and is served.
func TestPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := switchboard.New()
		claims, let := make(chan Claim, 2*mostAtOnce), make(chan struct{})
		end, _ := serving(t, b, func(_ context.Context, c Claim) error {
			claims <- c
			<-let
			return nil
		})
		answers := make(chan error, mostAtOnce+1)
		for range mostAtOnce + 1 {
			go func() {
				_, err := Ask(t.Context(), b.Dial, claimOfTest())
				answers <- err
			}()
		}
		synctest.Wait()
		require.Len(t, claims, mostAtOnce)
		let <- struct{}{}
		synctest.Wait()
		require.Len(t, claims, mostAtOnce+1)
		close(let)
		for range mostAtOnce + 1 {
			require.NoError(t, <-answers)
		}
		end()
	})
}

// failing is a listener whose first tries fail.
type failing struct {
	*switchboard.Switchboard
	times int
}

func (f *failing) Accept() (net.Conn, error) {
	if f.times > 0 {
		f.times--
		return nil, errors.New("no memory")
	}
	return f.Switchboard.Accept()
}

func TestAcceptIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &failing{switchboard.New(), 1000} // more than there are places
		end, log := serving(t, l, ready)
		start := time.Now()
		require.Equal(t, "{\"ready\":true}\n", call(t, l.Switchboard, line(t, claimOfTest())))
		require.Equal(t, 1000*pause, time.Since(start))
		require.Equal(t, 1, strings.Count(log.String(), "\n"), log.String())
		require.Contains(t, log.String(), "no memory")
		end()
	})
}

func TestListenerOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := switchboard.New()
		ended := make(chan error, 1)
		go func() { ended <- Serve(t.Context(), b, claimerFunc(ready), klog.Background()) }()
		synctest.Wait()
		require.NoError(t, b.Close())
		err := <-ended
		require.ErrorIs(t, err, net.ErrClosed)
		require.ErrorContains(t, err, "accept claims on switchboard: ")
	})
}

// When Serve has returned, nothing of it is left: no listener, connection or claim.
func TestServeEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := switchboard.New()
		claims := 0
		end, _ := serving(t, b, func(ctx context.Context, c Claim) error {
			claims++
			defer func() { claims-- }()
			return never(ctx, c)
		})
		silent, err := b.Dial(t.Context())
		require.NoError(t, err)
		waiting, err := b.Dial(t.Context())
		require.NoError(t, err)
		require.NoError(t, writeLine(waiting, claimOfTest()))
		synctest.Wait()
		require.Equal(t, 1, claims)
		end()
		require.Zero(t, claims)
		for _, conn := range []net.Conn{silent, waiting} {
			said, err := io.ReadAll(conn)
			require.NoError(t, err)
			require.Empty(t, said, "the next agent answers")
		}
		_, err = b.Dial(t.Context())
		require.ErrorIs(t, err, switchboard.ErrNobody)
	})
}

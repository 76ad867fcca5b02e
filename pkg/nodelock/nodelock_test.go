package nodelock

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// holds names the lock that this program holds instead of running tests.
const holds = "NODELOCK_TEST_HOLDS"

func TestMain(m *testing.M) {
	name := os.Getenv(holds)
	if name == "" {
		os.Exit(m.Run())
	}
	unlock, err := New(name).Lock(context.Background(), func() { fmt.Println("waits") })
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("held")
	_, _ = io.Copy(io.Discard, os.Stdin) // until it is closed
	unlock()
	fmt.Println("free")
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt)
	<-interrupted // the lock is free although the process lives on
}

// other is another process with a lock.
type other struct {
	t     *testing.T
	cmd   *exec.Cmd
	stdin io.Closer
	lines *bufio.Scanner
}

func run(t *testing.T, name string) *other {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	o := &other{t: t, cmd: exec.CommandContext(t.Context(), self)}
	o.cmd.Env = append(os.Environ(), holds+"="+name)
	o.stdin, err = o.cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := o.cmd.StdoutPipe()
	require.NoError(t, err)
	o.lines = bufio.NewScanner(stdout)
	require.NoError(t, o.cmd.Start())
	t.Cleanup(o.kill)
	return o
}

func (o *other) says(want string) {
	o.t.Helper()
	require.True(o.t, o.lines.Scan(), "it ended before it said %q", want)
	require.Equal(o.t, want, o.lines.Text())
}

func (o *other) kill() {
	_ = o.cmd.Process.Kill()
	_ = o.cmd.Wait() // "killed"
}

// lockName names a lock of this test.
func lockName(t *testing.T) string {
	t.Helper()
	name := fmt.Sprintf("WinNPM-test-%d-%s", os.Getpid(), t.Name())
	t.Cleanup(func() {
		for _, l := range []*Lock{New(name), New(name + "-b")} {
			_ = os.Remove(l.path()) // a file or nothing
		}
	})
	return name
}

// quick bounds what must not wait for anybody.
func quick(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestOneProcessAtATime(t *testing.T) {
	name := lockName(t)
	for what, end := range map[string]func(*other){
		"unlock": func(o *other) { require.NoError(t, o.stdin.Close()); o.says("free") },
		"crash":  (*other).kill,
	} {
		first := run(t, name)
		first.says("held")
		waits := make(chan struct{})
		type result struct {
			unlock func()
			err    error
		}
		got := make(chan result, 1)
		ctx := quick(t)
		go func() {
			unlock, err := New(name).Lock(ctx, func() { close(waits) })
			got <- result{unlock, err}
		}()
		<-waits
		second := run(t, name)
		second.says("waits")
		second.kill()
		select {
		case r := <-got:
			require.FailNow(t, "two hold it", "%s: %v", what, r.err)
		case <-time.After(3 * poll):
		}
		end(first)
		r := <-got
		require.NoError(t, r.err, what)
		r.unlock()
		first.kill()
	}
}

func TestLockIsFreeAfterUnlock(t *testing.T) {
	name := lockName(t)
	for range 3 {
		unlock, err := New(name).Lock(quick(t), func() { t.Error("nobody holds it") })
		require.NoError(t, err)
		unlock()
	}
}

// Locks of two names have nothing to do with each other, and within one process
// a second holder waits as well.
func TestContextEndsTheWait(t *testing.T) {
	name := lockName(t)
	unlock, err := New(name).Lock(quick(t), func() { t.Error("nobody holds it") })
	require.NoError(t, err)
	unlockB, err := New(name+"-b").Lock(quick(t), func() { t.Error("nobody holds the other") })
	require.NoError(t, err)
	unlockB()

	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	waited := 0
	_, err = New(name).Lock(ctx, func() {
		waited++
		cancel(enough)
	})
	require.ErrorIs(t, err, enough)
	require.Equal(t, 1, waited)

	unlock()
	unlock, err = New(name).Lock(quick(t), func() { t.Error("who gave up holds it") })
	require.NoError(t, err)
	unlock()
}

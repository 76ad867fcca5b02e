package node

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// holds names the lock that this program holds instead of running tests.
const holds = "NODELOCK_TEST_HOLDS"

// holdLock holds a lock until stdin is closed.
func holdLock(name string) {
	unlock, err := Lock(context.Background(), name, func() { fmt.Println("waits") })
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
	name := fmt.Sprintf("WinNPM-test-%d-%s", os.Getpid(), strings.ReplaceAll(t.Name(), "/", "-"))
	t.Cleanup(func() {
		dir, err := directory()
		require.NoError(t, err)
		for _, file := range []string{name + ".lock", name + "-b.lock"} {
			_ = os.Remove(filepath.Join(dir, file)) // not every test makes each
		}
	})
	return name
}

// alone is for a lock that no other process holds.
func alone(t *testing.T) func() { return func() { t.Error("held") } }

// quick bounds what must not wait for anybody.
func quick(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestLockOneProcessAtATime(t *testing.T) {
	name := lockName(t)
	for what, end := range map[string]func(*other){
		"unlock": func(o *other) { require.NoError(t, o.stdin.Close()); o.says("free") },
		"crash":  (*other).kill,
	} {
		first := run(t, name)
		first.says("held")
		waits := make(chan struct{}, 1)
		type result struct {
			unlock func()
			err    error
		}
		got := make(chan result, 1)
		ctx := quick(t)
		go func() {
			unlock, err := Lock(ctx, name, func() { waits <- struct{}{} })
			got <- result{unlock, err}
		}()
		<-waits
		second := run(t, name)
		second.says("waits")
		second.kill()
		select {
		case r := <-got:
			require.FailNow(t, "two hold it", "%s: %v", what, r.err)
		case <-time.After(3 * lockPoll):
		}
		end(first)
		r := <-got
		require.NoError(t, r.err, what)
		r.unlock()
		first.kill()
	}
}

// Locks of two names have nothing to do with each other, and within one process
// a second holder waits as well.
func TestLockContextEndsTheWait(t *testing.T) {
	name := lockName(t)
	unlock, err := Lock(quick(t), name, alone(t))
	require.NoError(t, err)
	unlockB, err := Lock(quick(t), name+"-b", alone(t))
	require.NoError(t, err)
	unlockB()

	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	waited := 0
	_, err = Lock(ctx, name, func() {
		waited++
		cancel(enough)
	})
	require.ErrorIs(t, err, enough)
	require.Equal(t, 1, waited)

	unlock()
	unlock, err = Lock(quick(t), name, alone(t))
	require.NoError(t, err)
	unlock()
}

func TestLockSaysWhatIsInTheWay(t *testing.T) {
	name := lockName(t)
	dir, err := directory()
	require.NoError(t, err)
	path := filepath.Join(dir, name+".lock")
	require.NoError(t, os.Mkdir(path, 0o700))
	_, err = Lock(quick(t), name, alone(t))
	require.ErrorContains(t, err, "lock "+path+": ")
}

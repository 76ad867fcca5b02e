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
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/processes"
)

// holds names the lock that this program holds instead of running tests.
const holds = "NODELOCK_TEST_HOLDS"

// olderPrefix is before a name of which it holds what older versions lock.
const olderPrefix = "older:"

func TestMain(m *testing.M) {
	name := os.Getenv(holds)
	if name == "" {
		os.Exit(m.Run())
	}
	take := New(name).Lock
	if before, ok := strings.CutPrefix(name, olderPrefix); ok {
		take = takeOlder(before)
	}
	unlock, err := take(context.Background(), Listener{
		Waiting: func(string) { fmt.Println("waits") },
		Ignored: func(by string) { fmt.Println("ignored: " + by) },
	})
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

func (o *other) pid() uint32 { return uint32(o.cmd.Process.Pid) }

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
		for _, l := range []*Lock{New(name), New(name + "-b")} {
			_ = os.Remove(l.path()) // a file or nothing
		}
	})
	return name
}

// alone is for a lock that nobody else holds.
func alone(t *testing.T) Listener {
	return Listener{Waiting: func(holder string) { t.Error("held by", holder) }, Ignored: nobody(t)}
}

// nobody is for a lock whose older name is free.
func nobody(t *testing.T) func(string) { return func(by string) { t.Error("ignored", by) } }

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
		waits := make(chan string, 1)
		type result struct {
			unlock func()
			err    error
		}
		got := make(chan result, 1)
		ctx := quick(t)
		go func() {
			unlock, err := New(name).Lock(ctx, Listener{Waiting: func(holder string) { waits <- holder }, Ignored: nobody(t)})
			got <- result{unlock, err}
		}()
		self, err := os.Executable()
		require.NoError(t, err)
		require.Equal(t, processes.Text(first.pid(), filepath.Base(self)), <-waits, what)
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

// A version that knows only the older lock does not work beside us, whichever
// comes first.
func TestOlderVersions(t *testing.T) {
	name := lockName(t)
	before := run(t, olderPrefix+name)
	before.says("held")
	us := run(t, name)
	us.says("waits")
	before.kill()
	us.says("held")
	after := run(t, olderPrefix+name)
	after.says("waits")
	us.kill()
	after.says("held")
}

func TestLockIsFreeAfterUnlock(t *testing.T) {
	name := lockName(t)
	for range 3 {
		unlock, err := New(name).Lock(quick(t), alone(t))
		require.NoError(t, err)
		unlock()
	}
}

// Locks of two names have nothing to do with each other, and within one process
// a second holder waits as well.
func TestContextEndsTheWait(t *testing.T) {
	name := lockName(t)
	unlock, err := New(name).Lock(quick(t), alone(t))
	require.NoError(t, err)
	unlockB, err := New(name+"-b").Lock(quick(t), alone(t))
	require.NoError(t, err)
	unlockB()

	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	waited := 0
	_, err = New(name).Lock(ctx, Listener{Ignored: nobody(t), Waiting: func(string) {
		waited++
		cancel(enough)
	}})
	require.ErrorIs(t, err, enough)
	require.Equal(t, 1, waited)

	unlock()
	unlock, err = New(name).Lock(quick(t), alone(t))
	require.NoError(t, err)
	unlock()
}

// A note says who holds the lock; whatever else the file has says nothing, and
// nothing of it gets into a line as it is.
func TestNotes(t *testing.T) {
	for text, want := range map[string]string{
		"12 npm.exe\x00\x00":             "process 12 (npm.exe)",
		"12 ":                            "process 12",
		"12":                             "process 12",
		"12 a\nb\x1b[1m":                 "process 12 (a\uFFFDb\uFFFD[1m)",
		"":                               "",
		"npm.exe":                        "",
		"-1 npm.exe":                     "",
		"4294967296 npm.exe":             "",
		"7 " + strings.Repeat("x", 1000): "process 7 (" + strings.Repeat("x", 64) + "…)",
	} {
		require.Equal(t, want, holder(strings.NewReader(text)), "%q", text)
	}
	require.Equal(t, uint8(0), note()[noteBytes-1])
	require.Regexp(t, fmt.Sprintf(`^process %d \(nodelock`, os.Getpid()), holder(strings.NewReader(string(note()))))
}

// Who waits is told of each holder once, and of none that is not known after one
// that was.
func TestWaiterTellsWhatIsNew(t *testing.T) {
	var told []string
	w := waiter{Listener: Listener{Waiting: func(holder string) { told = append(told, holder) }}}
	for _, holder := range []string{"", "", "a", "a", "", "a", "b"} {
		w.waits(holder)
	}
	require.Equal(t, []string{"", "a", "b"}, told)
}

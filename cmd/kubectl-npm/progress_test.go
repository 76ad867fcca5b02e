package main

import (
	"bytes"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/cli"
)

// screen is what a terminal was sent.
type screen struct {
	mu   sync.Mutex // guards sent
	sent bytes.Buffer
}

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent.Write(b)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent.String()
}

// TestProgress: nothing for a second, then one line that is written over, and nothing of it
// before the first output.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var terminal screen
		p := newProgress(&terminal, "kubectl npm trace")
		time.Sleep(progressAfter - 1)
		synctest.Wait()
		require.Empty(t, terminal.String())
		time.Sleep(progressAfter + progressEvery)
		synctest.Wait()
		require.Equal(t, "\r\rkubectl npm trace: 1 s, Ctrl-C ends it", terminal.String()[:40])
		require.Contains(t, terminal.String(), "kubectl npm trace: 2 s, Ctrl-C ends it")
		_, err := (&endingWriter{p, &terminal}).Write([]byte("ALLOWED"))
		require.NoError(t, err)
		require.Regexp(t, `\r {38}\rALLOWED$`, terminal.String())
		shown := terminal.String()
		p.end()
		time.Sleep(time.Hour)
		require.Equal(t, shown, terminal.String())
	})
}

func TestQuickCommandsShowNoProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var terminal bytes.Buffer
		p := newProgress(&terminal, "kubectl npm trace")
		p.end()
		require.Empty(t, terminal.String())
	})
}

// A file is no terminal, and what is started runs until somebody ends it.
func TestNoProgressWithoutATerminal(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "err"))
	require.NoError(t, err)
	defer file.Close()
	for _, std := range []cli.Streams{{Out: file, Err: file}, {Out: file, Err: &bytes.Buffer{}}} {
		same, stop := watched(std, []string{"simulate"})
		stop()
		require.Equal(t, std, same)
	}
}

// Package page looks at the page of the debug endpoint in a real Chromium: it
// runs kubectl npm simulate, and does what a person does, with mouse and keyboard. No
// test may leave an error in the console or a request that failed.
//
// "make page" builds and runs it. Pictures of what it saw go to
// WINNPM_SCREENSHOTS.
package page

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

const shop = "../../examples/shop"

// What all tests share.
var (
	npm      string // the program
	browser  context.Context
	pictures string // folder; "" for none
)

func TestMain(m *testing.M) {
	code, err := runAll(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "page:", err)
		code = 1
	}
	os.Exit(code)
}

func runAll(m *testing.M) (int, error) {
	npm, pictures = os.Getenv("NPM_PAGE_BIN"), os.Getenv("WINNPM_SCREENSHOTS")
	chromium := os.Getenv("CHROMIUM")
	for _, program := range []string{npm, chromium} {
		if _, err := os.Stat(program); err != nil {
			return 0, fmt.Errorf("no program in NPM_PAGE_BIN=%q or CHROMIUM=%q: run \"make page\" in the root of the repository", npm, chromium)
		}
	}
	if pictures != "" {
		if err := os.MkdirAll(pictures, 0o755); err != nil {
			return 0, err
		}
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium), chromedp.DisableGPU)
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox) // it refuses to run as root with one
	}
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	defer end()
	var closeBrowser context.CancelFunc
	browser, closeBrowser = chromedp.NewContext(allocator)
	defer closeBrowser()
	if err := chromedp.Do(browser); err != nil {
		return 0, fmt.Errorf("start %s: %w", chromium, err)
	}
	return m.Run(), nil
}

// startupWait is how long a simulation may take until it serves.
const startupWait = 90 * time.Second

// simulate runs kubectl npm ui on manifests until the test ends, and returns where
// it serves.
func simulate(t *testing.T, manifests string, args ...string) string {
	t.Helper()
	cmd := exec.Command(npm, append([]string{"ui", "--manifests", manifests, "--listen", "127.0.0.1:0"}, args...)...)
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	served := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(stderr).ReadString('\n')
		served <- line
	}()
	t.Cleanup(func() {
		require.NoError(t, cmd.Process.Signal(os.Interrupt))
		_ = cmd.Wait() // its exit code is another suite's concern
	})
	select {
	case line := <-served:
		base, ok := strings.CutPrefix(strings.TrimSpace(line), "serving on ")
		require.True(t, ok, line)
		return base
	case <-time.After(startupWait):
		t.Fatal("kubectl npm ui did not serve in time")
		return ""
	}
}

// picture keeps what the tab shows.
func (b *tab) picture(name string) {
	b.t.Helper()
	if pictures == "" {
		return
	}
	png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	require.NoError(b.t, err)
	require.NoError(b.t, os.WriteFile(filepath.Join(pictures, name+".png"), png, 0o644))
}

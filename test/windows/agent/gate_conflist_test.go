//go:build linux

package agent

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A CNI whose installer writes its list anew, again and again, has the plugin back within
// seconds: npm.exe install-cni --watch puts it there. Pods start behind it, none of whose
// forbidden packets pass. At the end the list is as the CNI wrote it, to the byte.
func TestGate_ListOverwritten(t *testing.T) {
	g := newGated(t)
	n := g.agent(calm...)
	n.waitReady()
	require.NoError(t, os.Remove(filepath.Join(g.cri.bin, "winnpm-cni.exe"))) // it is installed, too
	theirs := g.cri.list()
	folders := []string{"--conf-dir", windowsPath(g.cri.conf), "--bin-dir", windowsPath(g.cri.bin)}
	stop := g.installCNI(append(folders, "--mode", "strict", "--watch")...)
	for i := range 3 {
		began := time.Now()
		if i > 0 {
			g.cri.write(theirs)
		}
		eventually(t, settle, func() string {
			if list := g.cri.written(); !strings.Contains(list, `"winnpm-cni"`) {
				return "the plugin is not in the list: " + list
			}
			return ""
		})
		back := time.Since(began)
		require.Empty(t, g.cri.do("load", sandbox{}).Error)
		all := g.start(3)
		g.nothingPassed(t, all)
		t.Logf("time %d: in the list after %v", i+1, back.Round(time.Millisecond))
		g.end(all)
	}
	stop()
	out, err := g.npm(append([]string{"uninstall-cni"}, folders...)...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, theirs, g.cri.written())
	require.NoFileExists(t, filepath.Join(g.cri.bin, "winnpm-cni.exe"))
}

// npm is npm.exe with arguments.
func (g *gated) npm(args ...string) *exec.Cmd {
	p := begin(g.t)
	cmd := exec.CommandContext(g.t.Context(), p.wine, append([]string{p.exe("npm")}, args...)...)
	cmd.Env = p.environ()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// installCNI runs npm.exe install-cni until stop, or the end of the test.
func (g *gated) installCNI(args ...string) (stop func()) {
	g.t.Helper()
	cmd := g.npm(append([]string{"install-cni"}, args...)...)
	said, err := os.Create(filepath.Join(g.t.TempDir(), "installer"))
	require.NoError(g.t, err)
	cmd.Stdout, cmd.Stderr = said, said
	require.NoError(g.t, cmd.Start())
	require.NoError(g.t, said.Close())
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}
	g.t.Cleanup(func() {
		stop()
		if text, err := os.ReadFile(said.Name()); err == nil && g.t.Failed() {
			g.t.Logf("install-cni said:\n%s", text)
		}
	})
	return stop
}

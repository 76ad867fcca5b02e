//go:build linux

package agent

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/test/hnstest"
)

// cniSubnet is of the network in which win-bridge makes endpoints, and host-local gives
// out addresses. The pods that tests make themselves are in its lower half.
var cniSubnet = netip.MustParsePrefix("10.1.0.0/16")

// containerd is what runs the CNI of a node: test/cni under Wine, which does what
// containerd does for pods.
type containerd struct {
	h              *host
	dir, conf, bin string         // its folder, and those of CNI in it
	stderr         string         // file with what the plugins write there
	returned       func(answered) // called with each answer before who ordered has it

	mu      sync.Mutex // guards following
	stdin   io.WriteCloser
	waiting map[string]chan<- answered // by order and sandbox
	boxes   int                        // sandboxes made so far
}

// cniNetwork is the network, as flannel calls it.
const cniNetwork = "cbr0"

// listName is the file with the list of plugins.
const listName = "10-flannel.conflist"

// sandbox is one try of the kubelet to start a pod.
type sandbox struct {
	ID        string `json:"id"`
	Netns     string `json:"netns"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
}

type ordered struct {
	Do string `json:"do"`
	sandbox
}

// answered is what became of an order.
type answered struct {
	ordered
	Began, Ended time.Time // by the clock of Wine
	IPs          []netip.Addr
	Code         uint // CNI's
	Error        string
	at           time.Time // when it arrived here
}

// list is a list of CNI plugins: win-bridge as flannel configures it, and what comes
// behind it.
func (c *containerd) list(chained ...string) string {
	list := fmt.Sprintf(`{
  "cniVersion": "1.0.0",
  "name": %q,
  "plugins": [
    {
      "type": "win-bridge",
      "apiVersion": 2,
      "capabilities": {"dns": true},
      "loopbackDSR": true,
      "policies": [
        {"name": "EndpointPolicy", "value": {"Type": "OutBoundNAT", "Settings": {"Exceptions": ["10.1.0.0/16", "10.0.0.0/16"]}}},
        {"name": "EndpointPolicy", "value": {"Type": "SDNRoute", "Settings": {"DestinationPrefix": "10.0.0.0/16", "NeedEncap": true}}}
      ],
      "ipam": {"type": "host-local", "dataDir": %q, "ranges": [[{"subnet": %q, "rangeStart": "10.1.128.1"}]]}
    }`, cniNetwork, windowsPath(filepath.Join(c.dir, "addresses")), cniSubnet)
	for _, entry := range chained {
		list += ",\n    " + entry
	}
	return list + "\n  ]\n}\n"
}

// runContainerd starts a node's runtime, until the test ends.
func runContainerd(t *testing.T, h *host, returned func(answered)) *containerd {
	t.Helper()
	p := begin(t)
	dir := t.TempDir()
	c := &containerd{
		h: h, dir: dir, conf: filepath.Join(dir, "net.d"), bin: filepath.Join(dir, "bin"), stderr: filepath.Join(dir, "stderr"),
		waiting: map[string]chan<- answered{}, returned: returned,
	}
	require.NoError(t, os.Mkdir(c.conf, 0o755))
	require.NoError(t, os.Mkdir(c.bin, 0o755))
	for _, plugin := range []string{"win-bridge", "host-local", "winnpm-cni"} {
		require.NoError(t, os.Symlink(p.exe(plugin), filepath.Join(c.bin, plugin+".exe")))
	}
	c.write(c.list())
	for tries := 1; ; tries++ {
		ended := c.run(t, p)
		done, err := c.order("load", sandbox{})
		require.NoError(t, err)
		select {
		case a := <-done:
			require.Empty(t, a.Error)
			return c
		case <-ended:
			require.True(t, strings.Contains(c.said(t), notLoaded) && tries < 3, "the runtime ended: %s", tail(c.said(t), 60))
		case <-time.After(settle):
			require.FailNow(t, "the runtime does not answer")
		}
	}
}

// notLoaded is what a program says that Wine, and no code of ours, let down: now and then one
// of its own DLLs does not start.
const notLoaded = "DLL initialization failed"

// run starts the program, until the test ends, and returns a channel that says that it has ended.
func (c *containerd) run(t *testing.T, p *programs) <-chan struct{} {
	t.Helper()
	cmd := exec.Command(p.wine, p.exe("runtime"), windowsPath(c.conf), windowsPath(c.bin))
	cmd.Env = append(p.environ(), "HNSD_ADDR="+c.h.addr)
	cmd.Dir = filepath.Join(p.prefix, "drive_c") // CNI caches results in \var\lib\cni of the drive
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stderr, err := os.Create(c.stderr)
	require.NoError(t, err)
	defer stderr.Close()
	cmd.Stderr = stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	c.stdin = stdin
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	read := make(chan struct{})
	go func() {
		defer close(read)
		c.read(stdout)
	}()
	t.Cleanup(func() {
		_ = stdin.Close() // it ends when all is done
		select {
		case <-read:
		case <-time.After(settle):
			_ = cmd.Process.Kill()
			<-read
		}
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("CNI said:\n%s", tail(c.said(t), 60))
		}
	})
	return read
}

// write replaces the list of plugins.
func (c *containerd) write(list string) {
	c.h.t.Helper()
	require.NoError(c.h.t, os.WriteFile(filepath.Join(c.conf, listName), []byte(list), 0o644))
}

// written returns the list of plugins as it is.
func (c *containerd) written() string {
	c.h.t.Helper()
	text, err := os.ReadFile(filepath.Join(c.conf, listName))
	require.NoError(c.h.t, err)
	return string(text)
}

// said returns what the plugins wrote to stderr.
func (c *containerd) said(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(c.stderr)
	require.NoError(t, err)
	return string(text)
}

// read takes answers until there are none.
func (c *containerd) read(from io.Reader) {
	for lines := bufio.NewScanner(from); lines.Scan(); {
		a := answered{at: time.Now()}
		if json.Unmarshal(lines.Bytes(), &a) != nil {
			continue // something of Wine's
		}
		c.mu.Lock()
		wait := c.waiting[a.Do+a.ID]
		delete(c.waiting, a.Do+a.ID)
		c.mu.Unlock()
		c.returned(a)
		if wait != nil {
			wait <- a
		}
	}
}

// order gives an order; its answer comes on the channel.
func (c *containerd) order(do string, s sandbox) (<-chan answered, error) {
	line, err := json.Marshal(ordered{do, s})
	if err != nil {
		return nil, err
	}
	done := make(chan answered, 1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting[do+s.ID] = done
	_, err = c.stdin.Write(append(line, '\n'))
	return done, err
}

// do gives an order and waits until it is done.
func (c *containerd) do(do string, s sandbox) answered {
	c.h.t.Helper()
	done, err := c.order(do, s)
	require.NoError(c.h.t, err)
	select {
	case a := <-done:
		return a
	case <-time.After(settle):
		require.FailNow(c.h.t, "no answer to "+do, "%+v", s)
		return answered{}
	}
}

// sandbox makes a namespace for a pod.
func (c *containerd) sandbox(namespace, name, uid string) sandbox {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.boxes++
	netns := fmt.Sprintf("%08X-0000-4000-8000-636F6E746169", c.boxes)
	if err := hnstest.HNS(c.h.Call).Create("Namespace", netns, 0, `{"Type":"HostDefault"}`); err != nil {
		c.h.t.Error(err)
	}
	return sandbox{ID: fmt.Sprintf("%032x", c.boxes), Netns: netns, Namespace: namespace, Name: name, UID: uid}
}

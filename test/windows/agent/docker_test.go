//go:build linux

package agent

import (
	"encoding/json"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/windows/hnsd"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// noAnswer is the exit code of contract.exe -dial when nobody answers.
const noAnswer = 3

// packetsNetwork is the network that TestPackets of contract.exe asks Docker for.
const packetsNetwork = "winnpm-packets"

// dockerd is the Docker of a node whose containers are endpoints of the simulator: a connection
// gets through when both ends let it.
type dockerd struct {
	h    *host
	addr string

	mu         sync.Mutex
	containers map[string]netip.Addr // by their names
	network    bool
	tries      map[bool]int      // connections, by whether they got through
	leaks      func(string) bool // containers whose packets pass all the same
}

func newDockerd(t *testing.T, h *host) *dockerd {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	d := &dockerd{h: h, addr: l.Addr().String(), containers: map[string]netip.Addr{}, tries: map[bool]int{}, leaks: func(string) bool { return false }}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			var args []string
			if err := json.NewDecoder(c).Decode(&args); err == nil {
				_ = json.NewEncoder(c).Encode(d.do(args))
			}
			_ = c.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-ended
	})
	return d
}

// do is one command; it returns Docker's exit code.
func (d *dockerd) do(args []string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	ok := false
	last := args[len(args)-1]
	switch strings.Join(args[:min(2, len(args))], " ") {
	case "network create":
		ok, d.network = !d.network && last == packetsNetwork, true
	case "network inspect":
		return code(d.network)
	case "network rm":
		ok, d.network = d.network && len(d.containers) == 0, false
	case "container inspect":
		_, there := d.containers[last]
		return code(there)
	case "rm --force":
		addr, there := d.containers[last]
		ok = there && d.h.Sim().DeleteEndpoint(d.h.endpoints[addr]) == nil
		delete(d.containers, last)
	case "run --detach":
		ok = d.start(args)
	default:
		if args[0] == "exec" {
			passes := d.leaks(args[1]) || d.passes(d.containers[args[1]], last)
			d.tries[passes]++
			if !passes {
				return noAnswer
			}
			return 0
		}
	}
	return code(ok)
}

func code(ok bool) int {
	if ok {
		return 0
	}
	return 1
}

// start is docker run: an endpoint with the container's address.
func (d *dockerd) start(args []string) bool {
	value := func(flag string) string {
		at := slices.Index(args, flag)
		if at < 0 || at+1 == len(args) {
			return ""
		}
		return args[at+1]
	}
	addr, err := netip.ParseAddr(value("--ip"))
	if err != nil || !d.network || value("--network") != packetsNetwork || !strings.HasPrefix(args[len(args)-1], "-serve=:") {
		return false
	}
	id, err := d.h.CreateEndpoint(addr)
	d.h.endpoints[addr], d.containers[value("--name")] = id, addr
	return err == nil
}

// passes reports what becomes of the connection that -dial=ADDR:PORT makes.
func (d *dockerd) passes(from netip.Addr, dial string) bool {
	to, err := netip.ParseAddrPort(strings.TrimPrefix(dial, "-dial="))
	if err != nil {
		return false
	}
	p := hnssim.Packet{Src: from, Dst: to.Addr(), Protocol: 6, DstPort: to.Port()}
	for addr, dir := range map[netip.Addr]hns.Direction{from: hns.Out, to.Addr(): hns.In} {
		v, err := d.h.Sim().Trace(d.h.endpoints[addr], dir, p)
		if err != nil || !v.Allowed {
			return false
		}
	}
	return true
}

// packets runs TestPackets with a Docker, and returns what it said.
func (d *dockerd) packets(t *testing.T) (said string, failed error) {
	t.Helper()
	p := begin(t)
	t.Setenv("WINNPM_DOCKER", d.addr)
	t.Setenv("WINEPATH", windowsPath(filepath.Clean(p.bin)))
	return runToEnd(t, d.h, "contract", "-test.v", "-test.timeout=3m", "-test.run=^TestPackets$", "-image=none", "-npm="+windowsPath(p.exe("npm")), "-kubeconfig="+windowsPath(p.kubeconfig), "-settle=10s")
}

// TestPacketsOfContainers runs what .github/workflows/windows.yml runs with Docker's containers: it
// passes where HNS does with packets what its rules say, takes all away, and fails where a packet gets through
// that the policy denies.
func TestPacketsOfContainers(t *testing.T) {
	begin(t)
	d := newDockerd(t, newHost(t, hnsd.Options{Network: packetsNetwork}))
	said, failed := d.packets(t)
	require.NoError(t, failed, "%s", said)
	require.Regexp(t, `with the policy: as it should be, three times in a row, after `, said)
	require.NotRegexp(t, `--- SKIP`, said)
	require.Positive(t, d.tries[true])
	require.Positive(t, d.tries[false])
	require.Empty(t, d.containers)
	require.False(t, d.network)
	t.Logf("%d connections got through, %d did not: %s", d.tries[true], d.tries[false], said)

	d.leaks = func(container string) bool { return container == packetsNetwork+"-other" }
	said, failed = d.packets(t)
	require.Error(t, failed)
	require.Regexp(t, `not within 10s`, said)
	require.Regexp(t, `with the policy: other reaches the server: true`, said)
	require.Empty(t, d.containers, "also when it fails")
	require.False(t, d.network)
}

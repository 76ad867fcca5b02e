package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/cli"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/effort"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/test/hostile/cluster"
	"github.com/winnpm/winnpm/tool/hnssim"
)

const (
	// attackedEnv names the kubeconfig in the process that is attacked.
	attackedEnv = "NPM_TEST_ATTACKED"
	// memoryLimit is the limit that the runtime is told in deploy/, and mostResident
	// what the container may have: above it, it is killed.
	memoryLimit  = "240MiB"
	mostResident = 300 << 10 // KiB
	// attackLimit is until a policy of somebody else is in force, by the clock of the
	// wall: the machine may be busy.
	attackLimit = 60 * time.Second
)

// seen is a line that the attacked process writes of its HNS, five times a second.
type seen struct {
	Rules []string // ids of our rules on the first pod of the victim
	Open  []string // packets that must not pass and did, since the first time that none did
}

// TestUnderAttack runs npm start as a process of its own, with the memory limit of its
// container, on the simulator. The attacks of test/hostile come all at once, and then a
// hundred objects of 1.5 MB; a second process starts with all of them there. Neither is larger than its container, and both
// serve the others.
func TestUnderAttack(t *testing.T) {
	if kubeconfig := os.Getenv(attackedEnv); kubeconfig != "" {
		attacked(t, kubeconfig)
		return
	}
	effort.Unraced(t)
	var rows []cluster.Object
	for _, a := range cluster.Attacks() {
		rows = append(rows, a.Objects...)
	}
	server := cluster.NewServer(cluster.Honest()...)
	p := startAttacked(t, attackServer{server})
	p.served(server, 0)
	t.Logf("honest: %d MB", p.resident()>>10)
	server.Put(rows...)
	p.served(server, 1)
	p.served(server, 2)
	t.Logf("the rows of the issue: %d MB", p.resident()>>10)
	server.Put(cluster.Mixed().Objects...)
	p.served(server, 3)
	p.served(server, 4)
	t.Logf("100 objects of 1.5 MB: %d MB", p.resident()>>10)
	p.check()

	p = startAttacked(t, attackServer{server})
	p.served(server, 5)
	t.Logf("started with all that there: %d MB", p.resident()>>10)
	p.check()
}

// process is an npm start in a process of its own.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines *bufio.Scanner
	url   string // of its HTTP endpoint
	last  seen
}

func startAttacked(t *testing.T, api http.Handler) *process {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	p := &process{t: t, cmd: exec.Command(self, "-test.run=^TestUnderAttack$")}
	p.cmd.Env = append(os.Environ(), attackedEnv+"="+serveKube(t, api), "GOMEMLIMIT="+memoryLimit)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // a test out of time runs no cleanup
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	p.cmd.Stderr = p.cmd.Stdout
	require.NoError(t, p.cmd.Start())
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait() // it was killed
	})
	p.lines = bufio.NewScanner(out)
	p.lines.Buffer(nil, 1<<20)
	p.until(func() bool { return p.url != "" })
	return p
}

var listeningAt = regexp.MustCompile(`"listening":"([^"]+)"`)

// until reads what the process says until something is so.
func (p *process) until(is func() bool) {
	p.t.Helper()
	began, other := time.Now(), []string(nil)
	for !is() {
		require.Less(p.t, time.Since(began), attackLimit, "%+v %s", p.last, strings.Join(other, "\n"))
		if !p.lines.Scan() {
			require.Fail(p.t, "the process ended", "%v %s", p.lines.Err(), strings.Join(other, "\n"))
			p.t.FailNow()
		}
		line := p.lines.Bytes()
		if found := listeningAt.FindSubmatch(line); found != nil {
			p.url = "http://" + string(found[1])
		}
		if text, ok := strings.CutPrefix(string(line), "seen "); ok {
			require.NoError(p.t, json.Unmarshal([]byte(text), &p.last))
		} else if len(other) < 50 {
			other = append(other, string(line))
		}
	}
}

// served waits until a new policy of the victim is in force.
func (p *process) served(server *cluster.Server, turn int) {
	p.t.Helper()
	late := cluster.Late(turn)
	began, id := time.Now(), state.ACLID(policy.Key{Namespace: late.Namespace, Name: late.Name})
	server.Put(late)
	p.until(func() bool { return slices.Contains(p.last.Rules, id) })
	p.t.Logf("policy %d of the victim was in force after %v", turn, time.Since(began).Round(time.Millisecond))
}

var peak = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// resident returns the most memory that the process ever had, in KiB.
func (p *process) resident() int {
	p.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	require.NoError(p.t, err)
	found := peak.FindSubmatch(status)
	require.NotNil(p.t, found, "%s", status)
	size, err := strconv.Atoi(string(found[1]))
	require.NoError(p.t, err)
	return size
}

// check holds the process against its limits.
func (p *process) check() {
	p.t.Helper()
	require.LessOrEqual(p.t, p.resident(), mostResident, "KiB that were resident at most")
	require.Empty(p.t, p.last.Open, "packets that passed")
	for _, path := range []string{"/healthz", "/readyz"} {
		answer, err := http.Get(p.url + path)
		require.NoError(p.t, err)
		text, err := io.ReadAll(answer.Body)
		require.NoError(p.t, err)
		require.NoError(p.t, answer.Body.Close())
		require.Equal(p.t, http.StatusOK, answer.StatusCode, "%s: %s", path, text)
	}
}

// attacked is the process that is attacked: npm start on the simulator, until it is
// killed.
func attacked(t *testing.T, kubeconfig string) {
	fake := newFake()
	fake.Sim = hnsfault.New(hnsfault.Options{Foreign: hnssim.DefaultForeign()})
	for i, addr := range cluster.LocalAddrs() {
		id := fmt.Sprintf("00000000-0bad-4e00-9000-%012d", i)
		require.NoError(t, fake.CreateEndpoint(hnssim.SimEndpoint{ID: id, Addrs: []netip.Addr{addr}}))
	}
	file := t.TempDir() + "/azure-npm.json"
	require.NoError(t, os.WriteFile(file, []byte("{}"), 0o600))
	env := map[string]string{"HOSTNAME": cluster.Node, configEnv: file}
	cmd := newStart(cli.Streams{Err: os.Stderr}, func(key string) string { return env[key] }, fake.host())
	cmd.SetArgs([]string{"--kubeconfig", kubeconfig, "--listen", "127.0.0.1:0", "--listen-probes", "127.0.0.1:0"})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go watchVictim(ctx, fake.Sim)
	require.NoError(t, cmd.ExecuteContext(ctx))
}

// watchVictim says five times a second what HNS has for the victim.
func watchVictim(ctx context.Context, sim *hnsfault.Sim) {
	to, stranger := cluster.VictimAddr(0), netip.MustParseAddr("198.51.100.7")
	endpoint := ""
	for _, e := range sim.Endpoints() {
		if slices.Contains(e.Addrs, to) {
			endpoint = e.ID
		}
	}
	probes := []hnsfault.Probe{
		{Endpoint: endpoint, Direction: hns.In, Packet: hnssim.Packet{Src: stranger, Dst: to, Protocol: 6, DstPort: 5432}},
		{Endpoint: endpoint, Direction: hns.Out, Packet: hnssim.Packet{Src: to, Dst: stranger, Protocol: 6, DstPort: 80}},
	}
	sim.Watch(probes...)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		var s seen
		if e, ok := sim.Endpoint(endpoint); ok {
			ours, _ := hns.Endpoint{Policies: e.Policies}.Split()
			for _, a := range ours {
				s.Rules = append(s.Rules, a.ID)
			}
		}
		closed := map[hns.DirectionType]bool{}
		for _, moved := range sim.Transitions() {
			if d := moved.Probe.Direction; moved.To == hnsfault.Denied {
				closed[d] = true
			} else if closed[d] {
				s.Open = append(s.Open, fmt.Sprintf("%v %v", d, moved.Op))
			}
		}
		text, err := json.Marshal(s)
		if err != nil {
			panic("BUG: it always encodes: " + err.Error())
		}
		fmt.Println("seen " + string(text))
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

package windows

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/test/hnstest"
)

var (
	serveFlag  = flag.String("serve", "", "take connections at an `address` and run no test: what runs in the server's container")
	dialFlag   = flag.String("dial", "", "make one connection to an `address` and run no test: exit code 0 when it is answered, 3 when not")
	imageFlag  = flag.String("image", "", "container `image` for TestPackets, such as mcr.microsoft.com/windows/nanoserver:ltsc2025")
	cleanFlag  = flag.Bool("cleanup", false, "take away what a run that was killed left behind, and run no test")
	driverFlag = flag.String("driver", "nat", "`driver` of TestPackets' network in Docker: nat or l2bridge")
)

// TestMain runs the tests, or what a flag asks for in place of them.
func TestMain(m *testing.M) {
	flag.Parse()
	var err error
	switch {
	case *cleanFlag:
		err = (&hnstest.Node{HNS: hnstest.ThisHNS()}).Clean()
		sweepContainers()
	case *serveFlag != "":
		err = serve(*serveFlag)
	case *dialFlag != "":
		if !dial(*dialFlag) {
			os.Exit(noAnswer)
		}
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "contract:", err)
		os.Exit(1)
	}
}

// noAnswer is the exit code of a connection that nobody answered.
const noAnswer = 3

// serve answers every connection with a line, until the program is ended.
func serve(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	fmt.Println("serving", l.Addr())
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintln(c, "here")
		_ = c.Close()
	}
}

// dial makes one connection, and reports whether it was answered.
func dial(addr string) bool {
	c, err := net.DialTimeout("tcp", addr, 3*time.Second)
	if err != nil {
		return false
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(3 * time.Second))
	line := make([]byte, len("here"))
	n, _ := c.Read(line)
	return string(line[:n]) == "here"
}

// Names in Docker. The network has this name in HNS, too.
const (
	packetsNetwork = "winnpm-packets"
	packetsSubnet  = "10.94.0.0/24"
	packetsGateway = "10.94.0.1"
	serverPort     = 8080
)

// containers are those of TestPackets, by the names of their pods with their addresses.
var containers = map[string]string{"server": "10.94.0.4", "client": "10.94.0.5", "other": "10.94.0.6"}

// inDocker is the name of a pod's container.
func inDocker(pod string) string { return packetsNetwork + "-" + pod }

// sweepContainers takes away what a killed run left in Docker, if there is a Docker.
func sweepContainers() {
	for pod := range containers {
		_ = exec.Command("docker", "rm", "--force", inDocker(pod)).Run() // it may not be there
	}
	_ = exec.Command("docker", "network", "rm", packetsNetwork).Run()
}

// TestPackets: between containers of Docker only those connections get through that the policy
// allows, which npm.exe took from an API server. While the agent is killed and starts again
// nothing opens, and without the policy everything does. Policies for addresses and for a set
// without members follow.
func TestPackets(t *testing.T) {
	if *imageFlag == "" {
		t.Skip("packets need containers: -image (docs/windows.md)")
	}
	realHNS(t)
	a := newAPI(t)
	startContainers(t)
	a.cluster(t, packetsGateway, containers)

	all, some := map[string]bool{"client": true, "other": true}, map[string]bool{"client": true, "other": false}
	passing(t, "before anything is written", all)
	n := startNPM(t, a.kubeconfig, packetsNetwork)
	passing(t, "with the agent and without a policy", all)
	a.isolate(t, onlyClient, serverPort)
	passing(t, "with the policy", some)
	for range 3 {
		n.kill()
		require.False(t, reaches(t, "other"), "while the agent is away")
		n = startNPM(t, a.kubeconfig, packetsNetwork)
		require.False(t, reaches(t, "other"), "after a restart")
	}
	writes, _ := n.calls()
	require.Empty(t, writes, "a restart writes nothing")
	a.remove(t, policiesPath+"/server")
	passing(t, "without the policy", all)

	none := map[string]bool{"client": false, "other": false}
	for _, p := range []struct {
		when, peer string
		want       map[string]bool
	}{
		{"with a policy for an address", `{"ipBlock":{"cidr":"10.94.0.5/32"}}`, some},
		{"with a policy for all addresses but one", `{"ipBlock":{"cidr":"0.0.0.0/0","except":["10.94.0.6/32"]}}`, some},
		{"with a policy for a label that no pod has", `{"podSelector":{"matchLabels":{"app":"none"}}}`, none},
		{"with a policy for labels that no pod has", `{"podSelector":{"matchExpressions":[{"key":"app","operator":"In","values":["none","nobody"]}]}}`, none},
	} {
		a.isolate(t, p.peer, serverPort)
		passing(t, p.when, p.want)
		a.remove(t, policiesPath+"/server")
	}
}

// startContainers makes the network and the containers, all of which are this program.
func startContainers(t *testing.T) {
	t.Helper()
	sweepContainers()
	t.Cleanup(sweepContainers)
	self, err := os.Executable()
	require.NoError(t, err)
	run(t, nil, "docker", "network", "create", "--driver", *driverFlag, "--subnet", packetsSubnet, "--gateway", packetsGateway, packetsNetwork)
	for pod, addr := range containers {
		run(t, nil, "docker", "run", "--detach", "--name", inDocker(pod), "--network", packetsNetwork, "--ip", addr,
			"--volume", filepath.Dir(self)+`:C:\winnpm:ro`, *imageFlag, `C:\winnpm\`+filepath.Base(self), fmt.Sprintf("-serve=:%d", serverPort))
	}
}

// reaches makes a connection from a container to the server. A Docker that fails is no packet
// that was dropped. One that could not be started, as happens now and then under Wine, has
// asked nothing yet.
func reaches(t *testing.T, pod string) bool {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	var out []byte
	var exit *exec.ExitError
	eventually(t, func() string {
		cmd := exec.Command("docker", "exec", inDocker(pod), `C:\winnpm\`+filepath.Base(self), fmt.Sprintf("-dial=%s:%d", containers["server"], serverPort))
		if out, err = cmd.CombinedOutput(); err != nil && !errors.As(err, &exit) {
			return err.Error()
		}
		return ""
	})
	if errors.As(err, &exit) && exit.ExitCode() == noAnswer {
		return false
	}
	require.NoError(t, err, "%s", out)
	return true
}

// passing waits until these connections pass and the others do not, three times in a row, and says
// how long that took.
func passing(t *testing.T, when string, want map[string]bool) {
	t.Helper()
	began, row := time.Now(), 0
	eventually(t, func() string {
		var wrong []string
		for pod, passes := range want {
			if got := reaches(t, pod); got != passes {
				wrong = append(wrong, fmt.Sprintf("%s reaches the server: %v", pod, got))
			}
		}
		if row++; len(wrong) > 0 {
			row = 0
		}
		if row < 3 {
			return when + ": " + strings.Join(wrong, ", ")
		}
		return ""
	})
	t.Logf("%s: as it should be, three times in a row, after %v", when, time.Since(began).Round(time.Millisecond))
}

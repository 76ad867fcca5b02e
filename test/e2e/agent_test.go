package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/test/servers"
)

// settle is how long a change may take until it is in the verdicts. On a quiet
// machine it is some hundredths of a second.
const settle = 20 * time.Second

// agent is a running test/simnode.
type agent struct {
	t       *testing.T
	url     string
	process *exec.Cmd
	stderr  *buffer
	exited  chan struct{} // closed when it has

	elsewhere []string // pods of other nodes, for waitMatrix
}

// answer is the part of the agent's JSON that the suite reads.
type answer struct {
	Verdicts []struct {
		From, To, Protocol string
		Port               int
		Allowed            *bool // nil: another node decides the other half
		Ingress, Egress    *side
	}
	Calls    map[string]int
	Warnings []struct{ Object, Kind, Reason, Message string }
}

// side is one direction of a verdict.
type side struct {
	Allowed bool
	Policy  string
}

// startAgent runs test/simnode on a node with a kubeconfig until the test ends, and
// returns when that is ready.
func startAgent(t *testing.T, node, kubeconfig string) *agent {
	t.Helper()
	a := &agent{t: t, stderr: &buffer{}, exited: make(chan struct{})}
	a.process = exec.Command(filepath.Join(bin, "simnode"), "--kubeconfig", kubeconfig, "--node", node)
	a.process.Stdout = io.Discard
	a.process.Stderr = a.stderr
	a.process.SysProcAttr = endWithParent()
	require.NoError(t, a.process.Start())
	go func() {
		_ = a.process.Wait() // judged by what it wrote
		close(a.exited)
	}()
	t.Cleanup(func() {
		_ = a.process.Process.Kill()
		<-a.exited
		if t.Failed() {
			t.Logf("the agent on %s said:\n%s", node, a.stderr)
		}
	})
	servers.Eventually(t, settle, func() string {
		select {
		case <-a.exited:
			require.FailNow(t, "the agent ended", a.stderr.String())
		default:
		}
		found := served.FindStringSubmatch(a.stderr.String())
		if found == nil {
			return "the agent does not say where it serves"
		}
		a.url = "http://" + found[1]
		if err := a.readiness(); err != nil {
			return err.Error()
		}
		return ""
	})
	return a
}

// address is where the agent serves, without a scheme.
func (a *agent) address() string { return strings.TrimPrefix(a.url, "http://") }

// served finds the address that the agent prints.
var served = regexp.MustCompile(`serving on http://(\S+)`)

// ask gets /npm/v1/simulate. It returns an error only while the agent does not
// answer.
func (a *agent) ask(query url.Values) (answer, error) {
	var got answer
	err := a.get("/npm/v1/simulate?"+query.Encode(), &got)
	return got, err
}

// get reads JSON.
func (a *agent) get(path string, into any) error {
	body, err := a.read(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(body, into)
}

// read returns the body of a path that must answer 200.
func (a *agent) read(path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(a.t.Context(), settle)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s: %s", path, response.Status, body)
	}
	return body, nil
}

// waitMatrix waits until the verdicts of every ordered pair of pods are these:
// denied are the lines of denied, "a/x | b/y" and then the policy that denied
// it, everything else is allowed, for pods elsewhere as far as this node decides.
func (a *agent) waitMatrix(port string, pods []string, denied string) {
	a.t.Helper()
	want := lines(denied)
	for _, from := range pods {
		for _, to := range pods {
			pair := from + " | " + to + " "
			if from != to && !slices.ContainsFunc(want, func(line string) bool { return strings.HasPrefix(line+" ", pair) }) {
				want = append(want, from+a.sign(from, to)+to)
			}
		}
	}
	servers.Eventually(a.t, settle, func() string {
		got, err := a.ask(url.Values{"matrix": {port}})
		if err != nil {
			return err.Error()
		}
		var have []string
		for _, v := range got.Verdicts {
			have = append(have, verdictLine(v.From, v.To, v.Allowed, v.Ingress, v.Egress))
		}
		return difference(want, have)
	})
}

// sign is what stands between a pair of pods in a line when this node denies nothing.
func (a *agent) sign(from, to string) string {
	if slices.Contains(a.elsewhere, from) || slices.Contains(a.elsewhere, to) {
		return " ? "
	}
	return " > "
}

// waitReady waits until the agent has all it needs.
func (a *agent) waitReady(limit time.Duration) {
	a.t.Helper()
	servers.Eventually(a.t, limit, func() string {
		if err := a.readiness(); err != nil {
			return err.Error()
		}
		return ""
	})
}

// waitUnready waits until the agent says that it lacks something.
func (a *agent) waitUnready() {
	a.t.Helper()
	servers.Eventually(a.t, settle, func() string {
		if a.readiness() == nil {
			return "the agent says that it is ready"
		}
		return ""
	})
}

func (a *agent) readiness() error {
	_, err := a.read("/readyz")
	return err
}

// waitTrace waits until the verdicts of single packets are these; a line of
// want is "ns/pod->ns/pod:80/TCP allow", "... deny", or "... half": allowed by this
// node, and another one decides too.
func (a *agent) waitTrace(want string) {
	a.t.Helper()
	a.waitTraceFor(settle, want)
}

func (a *agent) waitTraceFor(limit time.Duration, want string) {
	a.t.Helper()
	wanted := lines(want)
	query := url.Values{}
	for _, line := range wanted {
		packet, _, ok := strings.Cut(line, " ")
		require.True(a.t, ok, "no verdict in %q", line)
		query.Add("trace", packet)
	}
	servers.Eventually(a.t, limit, func() string {
		got, err := a.ask(query)
		if err != nil {
			return err.Error()
		}
		var have []string
		for _, v := range got.Verdicts {
			word := "deny"
			if v.Allowed == nil {
				word = "half" // allowed here
			} else if *v.Allowed {
				word = "allow"
			}
			have = append(have, fmt.Sprintf("%s->%s:%d/%s %s", v.From, v.To, v.Port, v.Protocol, word))
		}
		slices.Sort(have)
		return difference(wanted, have)
	})
}

// writes returns how many requests that change HNS the agent has made.
func (a *agent) writes() int {
	a.t.Helper()
	got, err := a.ask(url.Values{})
	require.NoError(a.t, err)
	sum := 0
	for call, n := range got.Calls {
		if verb := call[strings.LastIndexByte(call, '/')+1:]; verb != "Get" && verb != "List" {
			sum += n
		}
	}
	return sum
}

func verdictLine(from, to string, allowed *bool, ingress, egress *side) string {
	if allowed == nil {
		return from + " ? " + to
	}
	if *allowed {
		return from + " > " + to
	}
	line := from + " | " + to
	for _, s := range []*side{ingress, egress} {
		if s != nil && !s.Allowed {
			line += " " + s.Policy
		}
	}
	return line
}

// lines returns the lines of text that say something, sorted.
func lines(text string) []string {
	var all []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, line)
		}
	}
	slices.Sort(all)
	return all
}

// difference names what is only in one of two sorted lists; it is empty when
// they are equal.
func difference(want, have []string) string {
	var text strings.Builder
	for _, line := range want {
		if !slices.Contains(have, line) {
			fmt.Fprintf(&text, "wanted: %s\n", line)
		}
	}
	for _, line := range have {
		if !slices.Contains(want, line) {
			fmt.Fprintf(&text, "got:    %s\n", line)
		}
	}
	if text.Len() == 0 && len(want) != len(have) {
		return fmt.Sprintf("wanted %d verdicts, got %d", len(want), len(have))
	}
	return text.String()
}

// buffer collects what a process writes while it is read.
type buffer struct {
	mu   sync.Mutex // guards text
	text []byte
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text = append(b.text, p...)
	return len(p), nil
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.text)
}

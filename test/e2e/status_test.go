package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// hangs returns the address of an agent that takes connections and never answers.
func hangs(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var taken []net.Conn
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := l.Accept()
			if err != nil {
				return // the test has ended
			}
			taken = append(taken, conn)
		}
	}()
	t.Cleanup(func() {
		_ = l.Close() // which is what ends the loop
		<-ended
		for _, conn := range taken {
			_ = conn.Close() // most are gone
		}
	})
	return l.Addr().String()
}

// older returns the address of an agent that answers what another one does, but says less of how
// it is, as one of an older version.
func older(t *testing.T, agent string) string {
	t.Helper()
	server := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: agent}) },
		ModifyResponse: func(r *http.Response) error {
			var said map[string]any
			if r.Request.URL.Path != "/npm/v1/debug/status" {
				return nil
			}
			defer r.Body.Close()
			if err := json.NewDecoder(r.Body).Decode(&said); err != nil {
				return err
			}
			delete(said, "behind")
			delete(said, "warnings")
			said["version"] = "v0.0.9"
			text, err := json.Marshal(said)
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
			r.Header.Set("Content-Length", strconv.Itoa(len(text)))
			return err
		},
	})
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

var servesAt = regexp.MustCompile(`serves at http://(\S+)`)

// rightless returns the address of an agent whose ServiceAccount nobody gave rights to.
func (w *world) rightless(node string) string {
	w.t.Helper()
	w.account("kube-system", "rightless")
	w.t.Cleanup(func() {
		require.NoError(w.t, w.kube.CoreV1().ServiceAccounts("kube-system").Delete(context.Background(), "rightless", now))
	})
	said := runTeller(w.t, node, kubeconfigOf(w.t, "kube-system", "rightless", admin.Host, admin.CAData), "--serve", "127.0.0.1:0")
	var found []string
	eventually(w.t, settle, func() string {
		if found = servesAt.FindStringSubmatch(said.String()); found == nil {
			return "the agent does not say where it serves"
		}
		return ""
	})
	return found[1]
}

// fiveAgents makes five nodes with an agent each: one that is well, one that hangs, one that is
// old, one that may read nothing of the cluster, and one that a member of npm-trace may not ask.
func (w *world) fiveAgents() {
	w.t.Helper()
	for _, object := range render(w.t, "../../deploy/trace") {
		if object.GetKind() == "Role" { // a port-forward to four of them
			rule := object.Object["rules"].([]any)[0].(map[string]any)
			rule["resourceNames"] = []any{agentOn("five-well"), agentOn("five-hung"), agentOn("five-old"), agentOn("five-rightless")}
		}
		applied(w.t, object)
	}
	well := startAgent(w.t, "five-well", agentKubeconfig(w.t)).address()
	for node, agent := range map[string]string{
		"five-well": well, "five-hung": hangs(w.t), "five-old": older(w.t, well), "five-rightless": w.rightless("five-rightless"), "five-refused": well,
	} {
		w.windowsNode(node, agent)
		w.agentPod(node)
	}
}

// Of five agents behind a real API server the one that hangs, the old one and the one that one may
// not ask are unknown, the one without rights is not ready, and the others' troubles hide nothing
// of the one that is well.
func TestStatusOfFiveAgents(t *testing.T) {
	w := newWorld(t)
	w.fiveAgents()
	w.namespace("five", "")
	w.pod(pod{namespace: "five", name: "web", node: "five-well", ip: "10.71.0.1", labels: "app=web"})
	member := newPerson(t, "npm-trace")

	t.Log("the worst first")
	var stdout string
	eventually(t, settle, func() string {
		code, out, stderr := member.npm(t, "status", "--timeout", "1s")
		if stdout = out; code != 4 || stderr != "" || !strings.Contains(out, "\nfive-well       ready ") {
			return fmt.Sprint(code, "\n", out, stderr)
		}
		return ""
	})
	var states []string
	for line := range strings.Lines(stdout) {
		if node, rest, _ := strings.Cut(line, "  "); !strings.Contains(node, ":") && strings.HasPrefix(node, "five-") {
			state, _, _ := strings.Cut(strings.TrimSpace(rest), "  ")
			states = append(states, node+" "+state)
		}
	}
	require.Equal(t, []string{"five-hung NO ANSWER", "five-old UNKNOWN", "five-refused NO ANSWER", "five-rightless NOT READY", "five-well ready"}, states, stdout)
	for _, part := range []string{
		"\nfive-hung: no answer within 1s\n",
		"\nfive-old: the agent kube-system/azure-npm-win-five-old on five-old does not say behind, warnings, as an agent of another version: ",
		"\nfive-refused: the agent kube-system/azure-npm-win-five-refused on five-refused: ", `pods "azure-npm-win-five-refused" is forbidden: User "somebody" cannot `,
		"\nfive-rightless: not ready: ",
		"\n1 of 5 nodes are as they should be\n",
	} {
		require.Contains(t, stdout, part)
	}

	t.Log("for scripts, and as soon as the one that hangs has had its time")
	began := time.Now()
	code, stdout, _ := member.npm(t, "status", "--timeout", "1s", "-o", "json")
	require.Equal(t, 4, code)
	require.Less(t, time.Since(began), 8*time.Second)
	var said struct {
		Nodes []struct {
			Node, Agent, NoAnswer, Reason string
			Ready                         bool
			Pods                          int
		}
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &said))
	require.Len(t, said.Nodes, 5)
	for i, n := range said.Nodes {
		require.Equal(t, states[i][:strings.IndexByte(states[i], ' ')], n.Node)
		require.Equal(t, "kube-system/"+agentOn(n.Node), n.Agent)
		require.Equal(t, i < 3, n.NoAnswer != "", n.Node)
		require.Equal(t, i == 4, n.Ready, n.Node)
	}
	require.Contains(t, said.Nodes[3].Reason, "forbidden", "why the agent is not ready")
	require.Equal(t, 2, said.Nodes[4].Pods, "the agent itself is a pod too")
	code, stdout, _ = member.npm(t, "status", "--timeout", "1s", "-o", "name")
	require.Equal(t, 4, code)
	require.Equal(t, "node/five-hung\nnode/five-old\nnode/five-refused\nnode/five-rightless\nnode/five-well\n", stdout)

	t.Log("-w goes on, and prints what has changed")
	followed, stop := member.follow(t, "status", "-w", "--timeout", "1s", "--interval", "100ms")
	tables := func(n int) {
		t.Helper()
		eventually(t, settle, func() string {
			if strings.Count(followed.String(), "NODE ") < n {
				return "so far: " + followed.String()
			}
			return ""
		})
	}
	tables(1)
	w.policy("five", "six", `{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: "fd00::/8"}}]}]}`)
	tables(2)
	require.Equal(t, 0, stop(), "it was told to end")
	require.Contains(t, followed.String(), "\nfive-well: NetworkPolicy five/six: IPv6Peer: ")
	require.Equal(t, 2, strings.Count(followed.String(), "\nfive-hung: no answer within 1s\n"))
	w.deletePolicy("five", "six")

	t.Log("what is known to be wrong has another code than what is not known")
	for _, node := range []string{"five-hung", "five-old", "five-refused"} {
		w.removeAgent(node)
	}
	code, stdout, _ = member.npm(t, "status", "--timeout", "5s")
	require.Equal(t, 4, code, "a Windows node without an agent")
	require.Contains(t, stdout, "\nfive-hung: no agent on node five-hung\n")
	require.NotContains(t, stdout, "no answer within")
	for _, node := range []string{"five-hung", "five-old", "five-refused"} {
		w.relabelNode(node, "linux")
	}
	code, stdout, _ = member.npm(t, "status")
	require.Equal(t, 3, code, stdout)
	w.removeAgent("five-rightless")
	w.relabelNode("five-rightless", "linux")
	eventually(t, settle, func() string { // the policy has to be gone there
		if code, out, stderr := member.npm(t, "status"); code != 0 || !strings.HasSuffix(out, "\n1 of 1 nodes are as they should be\n") {
			return fmt.Sprint(code, out, stderr)
		}
		return ""
	})
}

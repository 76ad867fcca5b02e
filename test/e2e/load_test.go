package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The load: 5,000 pods in 20 namespaces; every hundredth is on the node. In
// each namespace a third of the pods is of each of three tiers.
const (
	loadPods       = 5000
	loadNamespaces = 20
	loadClients    = 16
	loadLocal      = 100 // every so many-th
	loadLimit      = 90 * time.Second
	loadPause      = 20 * time.Millisecond // the shortest between two transactions while pods keep coming
)

var loadTiers = []string{"front", "middle", "back"}

func loadPod(i int) pod {
	return pod{
		namespace: fmt.Sprintf("load-%d", i%loadNamespaces),
		name:      fmt.Sprintf("p%d", i),
		node:      fmt.Sprintf("load-%d", i%loadLocal),
		ip:        fmt.Sprintf("10.100.%d.%d", i/250, i%250+1),
		labels:    fmt.Sprintf("tier=%s,number=n%d", loadTiers[tierOf(i)], i),
	}
}

// loadVerdicts are packets to some pods of the node, with the verdicts that the
// policies of TestLoad give them: a tier takes packets from the tier before it
// in namespaces that are even, the front takes them from everywhere.
func loadVerdicts(even func(namespace int) bool) string {
	var text strings.Builder
	for _, to := range []int{0, loadLocal, 2 * loadLocal, loadPods - loadLocal} {
		for _, from := range []int{1, 2, 20, 21, 40, 60, 61, 999, 2500, 4979, loadPods - 1} {
			verdict := "deny"
			if tierOf(to) == 0 || (tierOf(from) == tierOf(to)-1 && even(from%loadNamespaces)) {
				verdict = "allow"
				if from%loadLocal != 0 {
					verdict = "half" // the other node decides as well
				}
			}
			a, b := loadPod(from), loadPod(to)
			fmt.Fprintf(&text, "%s/%s->%s/%s:80/TCP %s\n", a.namespace, a.name, b.namespace, b.name, verdict)
		}
	}
	return text.String()
}

func tierOf(i int) int { return i / loadNamespaces % len(loadTiers) }

// Thousands of pods come while the agent runs, and again all at once when an
// agent starts: few transactions, right verdicts.
func TestLoad(t *testing.T) {
	w := newWorld(t)
	w.node("load-0", "192.168.3.1")
	for i := range loadNamespaces {
		name := fmt.Sprintf("load-%d", i)
		w.namespace(name, fmt.Sprintf("even=%t", i%2 == 0))
		for tier := 1; tier < len(loadTiers); tier++ {
			w.policy(name, loadTiers[tier], fmt.Sprintf(`
podSelector: {matchLabels: {tier: %s}}
ingress:
- from:
  - namespaceSelector: {matchLabels: {even: "true"}}
    podSelector: {matchLabels: {tier: %s}}
`, loadTiers[tier], loadTiers[tier-1]))
		}
	}
	verdicts := loadVerdicts(func(namespace int) bool { return namespace%2 == 0 })
	a := startAgent(t, "load-0", agentKubeconfig(t))
	before := a.transactions()

	begin := time.Now()
	makePods(t, loadPods, loadPod)
	created := time.Since(begin)
	a.waitTraceFor(loadLimit, verdicts)
	transactions := a.transactions() - before
	elapsed := time.Since(begin)
	t.Logf("%d pods made in %v, verdicts right %v later, %d transactions",
		loadPods, created.Round(time.Millisecond), (time.Since(begin) - created).Round(time.Millisecond), transactions)
	require.LessOrEqual(t, transactions, 1+int(elapsed/loadPause), "between two transactions the agent pauses, and one takes what has come up in the meantime")

	begin = time.Now()
	b := startAgent(t, "load-0", agentKubeconfig(t))
	b.waitTrace(verdicts)
	t.Logf("an agent that starts needs %v and %d transactions", time.Since(begin).Round(time.Millisecond), b.transactions())
	require.LessOrEqual(t, b.transactions(), 10, "what is there at the start comes in a handful of transactions")

	t.Log("one object changes what hundreds of pods may do")
	w.relabelNamespace("load-1", "even=true")
	a.waitTrace(loadVerdicts(func(namespace int) bool { return namespace%2 == 0 || namespace == 1 }))

	t.Log("hundreds of pods go")
	middle := loadPod(2 * loadLocal)
	gone := fmt.Sprintf("%s->%s/%s:80/TCP ", loadPod(2).ip, middle.namespace, middle.name)
	a.waitTrace(fmt.Sprintf("%s/%s->%s/%s:80/TCP half", loadPod(2).namespace, loadPod(2).name, middle.namespace, middle.name))
	w.removeNamespace("load-2")
	a.waitTrace(gone + "deny")
}

// makePods makes many pods with parallel clients.
func makePods(t *testing.T, n int, describe func(int) pod) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), loadLimit)
	defer cancel()
	next := make(chan int)
	failed := make(chan error, loadClients)
	var clients sync.WaitGroup
	for range loadClients {
		clients.Go(func() {
			for i := range next {
				if err := makePod(ctx, kube, describe(i)); err != nil {
					failed <- err
					cancel()
					return
				}
			}
		})
	}
	for i := 0; i < n && ctx.Err() == nil; i++ {
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	clients.Wait()
	select {
	case err := <-failed:
		require.NoError(t, err)
	default:
		require.NoError(t, ctx.Err(), "making %d pods took too long", n)
	}
}

// transactions returns how many the agent has applied.
func (a *agent) transactions() int {
	a.t.Helper()
	var dump struct {
		Reports []struct{ Generation int }
	}
	require.NoError(a.t, a.get("/npm/v1/debug/manager", &dump))
	require.NotEmpty(a.t, dump.Reports)
	return dump.Reports[len(dump.Reports)-1].Generation
}

//go:build linux

package agent

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/test/hnstest"
	"github.com/winnpm/winnpm/test/windows/hnsd"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// gated is a node whose pods are started as a kubelet, containerd and win-bridge do, and
// whom policies keep from everybody but a friend.
type gated struct {
	*world
	h    *host
	eyes *eyes
	cri  *containerd
	made int // pods so far
}

// friendAddr is whom the pods of a gated node may meet, at port 80.
var friendAddr = netip.MustParseAddr("10.1.0.31")

// newGated makes the node.
func newGated(t *testing.T) *gated {
	t.Helper()
	begin(t)
	h := newHost(t, hnsd.Options{Network: cniNetwork}) // win-bridge says what an endpoint gets
	w := newWorld(t)
	w.node(ownNode, ownAddr.String())
	w.namespace("shop", nil)
	w.pods([]pod{
		{namespace: "shop", name: "friend", node: otherNode, addr: friendAddr, labels: map[string]string{"app": "friend"}},
		{namespace: "shop", name: "far", node: otherNode, addr: farAddr, labels: map[string]string{"app": "far"}},
	})
	w.policy("shop", "friends", `{podSelector: {matchLabels: {isolated: "yes"}}, policyTypes: [Ingress, Egress],
 ingress: [{from: [{podSelector: {matchLabels: {app: friend}}}], ports: [{port: 80}]}],
 egress: [{to: [{podSelector: {matchLabels: {app: friend}}}], ports: [{port: 80}]}]}`)
	e := openEyes(h)
	return &gated{world: w, h: h, eyes: e, cri: runContainerd(t, h, func(a answered) {
		if a.Do == "setup" && a.Error == "" {
			e.run(a)
		}
	})}
}

// agent starts npm.exe as it is configured for the node's CNI, and otherwise by default.
func (g *gated) agent(flags ...string) *npm {
	g.t.Helper()
	return start(g.t, ownNode, g.h.addr, options{config: fmt.Sprintf(`{"WindowsNetworkName": %q}`, cniNetwork), flags: flags})
}

// entry is the plugin's in a list.
func entry(mode string, wait int) string {
	return fmt.Sprintf(`{"type": "winnpm-cni", "mode": %q, "waitSeconds": %d}`, mode, wait)
}

// use has the next pods started with these entries behind win-bridge. What was seen before
// is forgotten.
func (g *gated) use(entries ...string) {
	g.t.Helper()
	g.eyes.forget()
	g.cri.write(g.cri.list(entries...))
	require.Empty(g.t, g.cri.do("load", sandbox{}).Error)
}

// started is a pod that the kubelet has started, or has tried to.
type started struct {
	name   string
	uid    string
	tries  []answered // the last one is good, unless the kubelet has given up
	boxes  []sandbox
	addr   netip.Addr
	failed error // of the test
}

// schedule creates pods on the own node as a scheduler leaves them: without an address.
func (g *gated) schedule(count int) []*started {
	g.t.Helper()
	var all []*started
	for range count {
		g.made++
		p := corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pod-%d", g.made), Namespace: "shop", Labels: map[string]string{"isolated": "yes"}},
			Spec:       corev1.PodSpec{NodeName: ownNode, Containers: []corev1.Container{{Name: "c", Image: "none"}}},
		}
		var made corev1.Pod
		require.NoError(g.t, g.kube.Do(g.t.Context(), http.MethodPost, pathOf(pods, "shop"), p, &made))
		all = append(all, &started{name: made.Name, uid: string(made.UID)})
	}
	return all
}

// kubeletTries is how often the kubelet of these tests tries to start a pod.
const kubeletTries = 20

// podsTake bounds how long pods take to start or to end.
const podsTake = 2 * time.Minute

// startAll starts pods at once, each up to tries times, and returns a function that waits
// for all of them.
func (g *gated) startAll(all []*started, tries int) (wait func()) {
	g.t.Helper()
	var running sync.WaitGroup
	for _, p := range all {
		running.Go(func() { p.failed = g.keepStarting(g.t.Context(), p, tries) })
	}
	return func() {
		g.t.Helper()
		g.waitFor(&running, all)
	}
}

// waitFor waits until what is done with pods is done.
func (g *gated) waitFor(running *sync.WaitGroup, all []*started) {
	g.t.Helper()
	done := make(chan struct{})
	go func() {
		running.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(podsTake):
		require.FailNow(g.t, "pods neither start nor end", "%v", g.h.Counts())
	}
	for _, p := range all {
		require.NoError(g.t, p.failed, "pod %s", p.name)
	}
}

// keepStarting is the kubelet's loop for one pod. When it runs it tells the API server.
func (g *gated) keepStarting(ctx context.Context, p *started, tries int) error {
	for range tries {
		box := g.cri.sandbox("shop", p.name, p.uid)
		p.boxes = append(p.boxes, box)
		answers, err := g.cri.order("setup", box)
		if err != nil {
			return err
		}
		a := <-answers
		p.tries = append(p.tries, a)
		if a.Error == "" {
			if len(a.IPs) != 1 {
				return fmt.Errorf("addresses %v", a.IPs)
			}
			p.addr = a.IPs[0]
			return g.kube.setStatus(ctx, pod{namespace: "shop", name: p.name, addr: p.addr})
		}
		if err := g.takeDown(box); err != nil {
			return fmt.Errorf("after %q: %w", a.Error, err)
		}
	}
	if tries == 1 {
		return nil
	}
	return fmt.Errorf("not started in %d tries: %s", tries, p.tries[len(p.tries)-1].Error)
}

// start starts pods and waits until they run.
func (g *gated) start(count int) []*started {
	g.t.Helper()
	all := g.schedule(count)
	g.startAll(all, kubeletTries)()
	return all
}

// meetsFriends checks that pods may do what their policies let them do.
func (g *gated) meetsFriends(all []*started) {
	g.t.Helper()
	for _, p := range all {
		id := g.eyes.endpoint(p.addr)
		in := hnssim.Packet{Src: friendAddr, Dst: p.addr, Protocol: 6, DstPort: 80}
		out := hnssim.Packet{Src: p.addr, Dst: friendAddr, Protocol: 6, DstPort: 80}
		got := g.h.Sim().Ask(hnsfault.Probe{Endpoint: id, Direction: hns.In, Packet: in}, hnsfault.Probe{Endpoint: id, Direction: hns.Out, Packet: out})
		require.Equal(g.t, []hnsfault.Outcome{hnsfault.Allowed, hnsfault.Allowed}, got)
	}
}

// takeDown removes what is left of a sandbox: the kubelet does not stop before that is
// done. Who ends a plugin without a word is Wine, now and then.
func (g *gated) takeDown(box sandbox) error {
	var said string
	for range mostStarts {
		if err := hnstest.HNS(g.h.Call).Delete("Namespace", box.Netns); err == nil {
			return nil
		} else if said != "" && !strings.Contains(said, "netplugin failed with no error message") {
			return fmt.Errorf("remove: %s: %w", said, err)
		}
		done, err := g.cri.order("remove", box)
		if err != nil {
			return err
		}
		said = (<-done).Error
	}
	if err := hnstest.HNS(g.h.Call).Delete("Namespace", box.Netns); err != nil {
		return fmt.Errorf("remove, %d times: %s: %w", mostStarts, said, err)
	}
	return nil
}

// end stops pods at once, and forgets what was seen of them.
func (g *gated) end(all []*started) {
	g.t.Helper()
	g.h.takes(0)
	g.eyes.forget()
	var running sync.WaitGroup
	for _, p := range all {
		require.NoError(g.t, g.kube.remove(g.t.Context(), pods, "shop", p.name))
		if p.addr.IsValid() {
			running.Go(func() { p.failed = g.takeDown(p.boxes[len(p.boxes)-1]) })
		}
	}
	g.waitFor(&running, all)
}

// nothingPassed checks that all pods run, and no forbidden packet passed since each did.
func (g *gated) nothingPassed(t *testing.T, all []*started) {
	t.Helper()
	asked := g.eyes.askAtLeast(manyPackets)
	require.Zero(t, g.eyes.leaks())
	require.Len(t, g.eyes.ran(), len(all))
	g.meetsFriends(all)
	tries := 0
	for _, p := range all {
		tries += len(p.tries)
	}
	t.Logf("0 of %d forbidden packets passed; %d pods in %d tries; DLL calls: %v", asked, len(all), tries, g.h.Counts())
}

// waitClosed waits until nothing forbidden passes at so many endpoints.
func (g *gated) waitClosed(count int) {
	g.t.Helper()
	eventually(g.t, settle, func() string {
		closed := 0
		for _, w := range g.eyes.ran() {
			if w.open[len(w.open)-1].passed == 0 {
				closed++
			}
		}
		if closed == count {
			return ""
		}
		return fmt.Sprintf("%d of %d pods are closed", closed, count)
	})
}

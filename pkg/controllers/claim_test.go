package controllers

import (
	"context"
	"errors"
	"net/netip"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/hns"
	gate "github.com/winnpm/winnpm/pkg/node"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// startWait is how long a pod of these tests waits.
const startWait = 10 * time.Second

// claiming is a node on the simulator whose pods the policy x/deny isolates.
type claiming struct {
	*cluster
	*Controller
	t   *testing.T
	sim *hnsfault.Sim
	dp  *dataplane.Dataplane
}

// runClaims runs a test on such a node.
func runClaims(t *testing.T, cl *cluster, play func(n claiming)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		sim := hnsfault.New(hnsfault.Options{Foreign: hnssim.DefaultForeign()})
		sim.SetPersonality(hnsfault.Personality{Early: true})
		dp := dataplane.New(dataplane.Config{Client: sim, Node: "n1", Now: time.Now})
		inBubble(t, Config{Source: cl.source(), Applier: dp, Readiness: dp, Node: "n1"}, func(t *testing.T, c *Controller) {
			play(claiming{cl, c, t, sim, dp})
		})
	})
}

// endpoint makes an endpoint as a CNI does.
func (n claiming) endpoint(id, addr string) {
	n.t.Helper()
	require.NoError(n.t, n.sim.CreateEndpoint(hnssim.SimEndpoint{ID: id, Addrs: []netip.Addr{netip.MustParseAddr(addr)}, State: hnssim.Created}))
}

// writes returns how many writes HNS was asked for.
func (n claiming) writes() (writes int) {
	for op, count := range n.sim.Counts() {
		if !hnsfault.ReadsOnly(op) {
			writes += count
		}
	}
	return writes
}

func claimOf(pod, sandbox, addr string) gate.Claim {
	return gate.Claim{
		UID: "uid-" + pod, Namespace: "x", Name: pod, ContainerID: sandbox,
		Addresses: []netip.Addr{netip.MustParseAddr("fd00::1"), netip.MustParseAddr(addr)}, Wait: startWait,
	}
}

// claim asks as the plugin does, and returns the answer and how long it took.
func (n claiming) claim(c gate.Claim) (time.Duration, error) {
	began := time.Now()
	ctx, cancel := context.WithTimeoutCause(n.t.Context(), c.Wait, gate.ErrLate)
	defer cancel()
	err := n.Claim(ctx, c)
	return time.Since(began), err
}

// later is claim beside the test. The result comes when it is there.
func (n claiming) later(c gate.Claim) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := n.claim(c)
		done <- err
	}()
	synctest.Wait()
	return done
}

// open reports whether anybody reaches the pod of an endpoint.
func (n claiming) open(endpoint, addr string) bool {
	n.t.Helper()
	v, err := n.sim.Trace(endpoint, hns.In, hnssim.Packet{Src: netip.MustParseAddr("10.0.9.9"), Dst: netip.MustParseAddr(addr), Protocol: 6, DstPort: 80})
	require.NoError(n.t, err)
	return v.Allowed
}

// scheduled is a pod as the API server has it until its CNI has ended.
func scheduled(name string) *corev1.Pod { return newPod(name, "") }

// TestClaim: the endpoint of a pod is closed before the API server knows its address, and
// the answer comes when it is. When the API server learns of it nothing is written.
func TestClaim(t *testing.T) {
	runClaims(t, newCluster(scheduled("a")), func(n claiming) {
		n.endpoint("ep-a", "10.0.0.1")
		require.True(n.t, n.open("ep-a", "10.0.0.1"))
		took, err := n.claim(claimOf("a", "s1", "10.0.0.1"))
		require.NoError(n.t, err)
		require.Less(n.t, took, time.Second)
		require.False(n.t, n.open("ep-a", "10.0.0.1"))

		before := n.writes()
		require.NoError(n.t, n.sim.SetState("ep-a", hnssim.AttachedSharing))
		n.cluster.pods.set(newPod("a", "10.0.0.1"))
		time.Sleep(time.Hour)
		require.Equal(n.t, before, n.writes())
		require.False(n.t, n.open("ep-a", "10.0.0.1"))
	})
}

// TestClaimBeforeThePod: a claim may be here before the watch shows the pod.
func TestClaimBeforeThePod(t *testing.T) {
	runClaims(t, newCluster(), func(n claiming) {
		n.endpoint("ep-a", "10.0.0.1")
		done := n.later(claimOf("a", "s1", "10.0.0.1"))
		time.Sleep(5 * time.Second)
		elsewhere := newRemotePod("a", "")
		n.cluster.pods.set(elsewhere)
		older := scheduled("a")
		older.UID = "older"
		n.cluster.pods.set(older)
		time.Sleep(time.Second)
		require.Empty(n.t, done, "of another node, or with another UID")
		n.cluster.pods.set(scheduled("a"))
		require.NoError(n.t, <-done)
		require.False(n.t, n.open("ep-a", "10.0.0.1"))

		_, err := n.claim(claimOf("nobody", "s1", "10.0.0.2"))
		require.EqualError(n.t, err, "the watch of the API server does not show it on this node")
	})
}

// TestClaimBeforeTheCluster: nothing is written before everything is known (I5), and a claim
// waits for that.
func TestClaimBeforeTheCluster(t *testing.T) {
	cl := newCluster(scheduled("a"))
	cl.policies.setDown(errDown)
	runClaims(t, cl, func(n claiming) {
		n.endpoint("ep-a", "10.0.0.1")
		_, err := n.claim(claimOf("a", "s1", "10.0.0.1"))
		require.EqualError(n.t, err, "the agent does not know the whole cluster yet")
		c := claimOf("a", "s1", "10.0.0.1")
		c.Wait = time.Hour
		done := n.later(c)
		n.cluster.policies.setDown(nil)
		require.NoError(n.t, <-done)
	})
}

// TestClaimOfTheHost: containerd calls a CNI only for pods of the pod network, so a claimed pod is in
// it even if its spec has hostNetwork. Until the kubelet knows the sandbox, it reports the address of
// the node for this pod.
func TestClaimOfTheHost(t *testing.T) {
	for name, edit := range map[string]func(*corev1.Pod){
		"hostNetwork": func(*corev1.Pod) {},
		"HostProcess": func(p *corev1.Pod) {
			yes := true
			p.Spec.SecurityContext = &corev1.PodSecurityContext{WindowsOptions: &corev1.WindowsSecurityContextOptions{HostProcess: &yes}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			host := scheduled("host")
			host.Spec.HostNetwork, host.Status.HostIP, host.Status.PodIP = true, "10.9.0.1", "10.9.0.1"
			edit(host)
			runClaims(t, newCluster(host), func(n claiming) {
				c := claimOf("host", "s1", "10.0.0.1")
				c.Addresses = c.Addresses[:1]
				_, err := n.claim(c)
				require.EqualError(n.t, err, "the CNI gave it no IPv4 address: [fd00::1]")

				ctx, cancel := context.WithTimeout(n.t.Context(), time.Second)
				defer cancel()
				err = n.Claim(ctx, claimOf("host", "s1", "10.0.0.1"))
				require.EqualError(n.t, err, "HNS shows no endpoint with its address that was made for its sandbox")
				n.endpoint("ep-host", "10.0.0.1")
				_, err = n.claim(claimOf("host", "s1", "10.0.0.1"))
				require.NoError(n.t, err)
				require.False(n.t, n.open("ep-host", "10.0.0.1"))

				is := host.DeepCopy()
				is.Status.PodIP = "10.0.0.1"
				n.cluster.pods.set(is)
				time.Sleep(time.Minute)
				require.False(n.t, n.open("ep-host", "10.0.0.1"))
			})
		})
	}
}

// TestClaimWhileTheAddressIsCleared: when the kubelet recreates the sandbox of a pod, it clears the
// address of the pod or reports the address of the node. Meanwhile the address of the claim counts.
func TestClaimWhileTheAddressIsCleared(t *testing.T) {
	for name, host := range map[string]string{"cleared": "", "of the node": "10.9.0.1"} {
		t.Run(name, func(t *testing.T) {
			runClaims(t, newCluster(newPod("a", "10.0.0.1")), func(n claiming) {
				done := n.later(claimOf("a", "s2", "10.0.0.2"))
				time.Sleep(time.Second)
				cleared := newPod("a", host)
				cleared.Status.HostIP = host
				n.cluster.pods.set(cleared)
				time.Sleep(time.Second)
				n.endpoint("ep-2", "10.0.0.2")
				require.NoError(n.t, <-done)
				require.False(n.t, n.open("ep-2", "10.0.0.2"))
				n.cluster.pods.set(newPod("a", "10.0.0.3"))
				time.Sleep(time.Minute)
				for _, p := range n.dp.Dump().Pods {
					require.Equal(n.t, "10.0.0.3", p.Addr, "another address counts")
				}
			})
		})
	}
}

// TestClaimGivenUp: what becomes of a pod that was not ready in time. One that runs keeps its
// address, and gets its rules when they can be written.
func TestClaimGivenUp(t *testing.T) {
	for name, tt := range map[string]struct {
		strict, hungUp, keeps bool
	}{
		"it runs":                        {keeps: true},
		"it does not start":              {strict: true},
		"its plugin is gone":             {strict: true, hungUp: true},
		"its plugin is gone and it runs": {hungUp: true, keeps: true},
	} {
		t.Run(name, func(t *testing.T) {
			runClaims(t, newCluster(scheduled("a")), func(n claiming) {
				c := claimOf("a", "s1", "10.0.0.1")
				c.Strict = tt.strict
				ctx, cancel := context.WithCancelCause(n.t.Context())
				cause := gate.ErrLate
				if tt.hungUp {
					cause = gate.ErrHungUp
				}
				time.AfterFunc(startWait, func() { cancel(cause) })
				err := n.Claim(ctx, c)
				require.EqualError(n.t, err, "HNS shows no endpoint with its address that was made for its sandbox")
				synctest.Wait()
				n.endpoint("ep-a", "10.0.0.1")
				time.Sleep(time.Minute)
				require.Equal(n.t, tt.keeps, !n.open("ep-a", "10.0.0.1"))
				cancel(nil)
			})
		})
	}
}

// TestClaimOfAnotherSandbox: a pod whose sandbox failed gets another one, with an address and
// an endpoint of its own, while the API server still tells the old address.
func TestClaimOfAnotherSandbox(t *testing.T) {
	runClaims(t, newCluster(scheduled("a"), scheduled("b")), func(n claiming) {
		n.endpoint("ep-1", "10.0.0.1")
		_, err := n.claim(claimOf("a", "s1", "10.0.0.1"))
		require.NoError(n.t, err)
		n.cluster.pods.set(newPod("a", "10.0.0.1"))
		time.Sleep(time.Minute)

		require.NoError(n.t, n.sim.DeleteEndpoint("ep-1"))
		n.endpoint("ep-2", "10.0.0.2")
		_, err = n.claim(claimOf("a", "s2", "10.0.0.2"))
		require.NoError(n.t, err)
		require.False(n.t, n.open("ep-2", "10.0.0.2"))

		// Another pod gets the old address at once.
		n.endpoint("ep-3", "10.0.0.1")
		_, err = n.claim(claimOf("b", "s1", "10.0.0.1"))
		require.NoError(n.t, err)
		require.False(n.t, n.open("ep-3", "10.0.0.1"))

		n.cluster.pods.set(newPod("a", "10.0.0.2"))
		time.Sleep(time.Minute)
		gone := newPod("a", "")
		n.cluster.pods.set(gone)
		time.Sleep(time.Minute)
		for _, p := range n.dp.Dump().Pods {
			if p.Pod == "x/a" {
				require.Empty(n.t, p.Addr, "the API server knows better since it told the new one")
			}
		}
	})
}

// TestClaimsOfOneAddress: the CNI gives an address to one pod at a time, so the last claim
// counts.
func TestClaimsOfOneAddress(t *testing.T) {
	runClaims(t, newCluster(scheduled("a"), scheduled("b")), func(n claiming) {
		first := n.later(claimOf("a", "s1", "10.0.0.1"))
		n.endpoint("ep-b", "10.0.0.1")
		_, err := n.claim(claimOf("b", "s1", "10.0.0.1"))
		require.NoError(n.t, err)
		require.ErrorIs(n.t, <-first, errReplaced)
		require.Len(n.t, n.claims.byPod, 1)
	})
}

// TestClaimsAreBounded: there is one for each local pod, and none after it.
func TestClaimsAreBounded(t *testing.T) {
	runClaims(t, newCluster(scheduled("a"), scheduled("b"), scheduled("c")), func(n claiming) {
		for _, pod := range []string{"a", "b", "c"} {
			for _, sandbox := range []string{"s1", "s2", "s3"} {
				n.later(claimOf(pod, sandbox, "10.0."+sandbox[1:]+"."+strconv.Itoa(int(pod[0]))))
			}
		}
		require.Len(n.t, n.claims.byPod, 3)
		n.cluster.pods.remove(scheduled("a"))
		ended := newPod("b", "")
		ended.Status.Phase = corev1.PodSucceeded
		n.cluster.pods.set(ended)
		again := scheduled("c")
		again.UID = "another"
		n.cluster.pods.set(again)
		synctest.Wait()
		require.Empty(n.t, n.claims.byPod)
		time.Sleep(startWait)
	})
}

// TestClaimAtTheEnd: an agent that ends answers with an error, and keeps the claim of a pod that may start.
func TestClaimAtTheEnd(t *testing.T) {
	runClaims(t, newCluster(scheduled("a")), func(n claiming) {
		ctx, cancel := context.WithCancel(n.t.Context())
		done := make(chan error, 1)
		go func() { done <- n.Claim(ctx, claimOf("a", "s1", "10.0.0.1")) }()
		synctest.Wait()
		cancel()
		err := <-done
		require.False(n.t, err == nil || errors.Is(err, errReplaced))
		require.Len(n.t, n.claims.byPod, 1, "the pod may run: the plugin asks the next agent")
	})
}

// TestClaimOfAStaticPod: a static pod is known to its runtime by a hash, and any other pod by
// the UID of its object.
func TestClaimOfAStaticPod(t *testing.T) {
	runClaims(t, newCluster(scheduled("a")), func(n claiming) {
		n.endpoint("ep-a", "10.0.0.1")
		c := claimOf("a", "s1", "10.0.0.1")
		c.UID = "0123456789abcdef0123456789abcdef"
		_, err := n.claim(c)
		require.NoError(n.t, err)
		for _, other := range []string{"0123456789abcdef0123456789abcdeg", "0123456789abcdef0123456789abcde", "00000000-0000-0000-0000-000000000000"} {
			c.UID = other
			_, err = n.claim(c)
			require.ErrorIs(n.t, err, errNoPod)
		}
	})
}

// goesAt is a context whose Done runs something once, the nth time.
type goesAt struct {
	context.Context
	n    *int
	then func()
}

func (c goesAt) Done() <-chan struct{} {
	if *c.n--; *c.n == 0 {
		c.then()
	}
	return c.Context.Done()
}

// TestClaimOfAPodThatGoes: a pod that goes between the look for it and its claim leaves no
// claim: no event of it comes any more that would end it.
func TestClaimOfAPodThatGoes(t *testing.T) {
	runClaims(t, newCluster(), func(n claiming) {
		n.cluster.pods.set(scheduled("a"))
		synctest.Wait()
		ctx, cancel := context.WithTimeoutCause(n.t.Context(), time.Second, gate.ErrLate)
		defer cancel()
		nth := 2 // the first is in awaitPod, the next is after it
		err := n.Claim(goesAt{ctx, &nth, func() { n.cluster.pods.remove(scheduled("a")); synctest.Wait() }}, claimOf("a", "s1", "10.0.0.1"))
		require.ErrorIs(n.t, err, errReplaced)
		time.Sleep(time.Minute)
		require.Empty(n.t, n.claims.byPod)
	})
}

// denies is a policy that isolates the pods with labels.
func denies(name string, labels map[string]string) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: name},
		Spec:       networkingv1.NetworkPolicySpec{PodSelector: metav1.LabelSelector{MatchLabels: labels}},
	}
}

// TestClaimWhileThingsChange: what the agent learns before its answer is in force when it
// answers.
func TestClaimWhileThingsChange(t *testing.T) {
	for name, change := range map[string]func(n claiming){
		"a label": func(n claiming) {
			p := scheduled("a")
			p.Labels = map[string]string{"closed": "yes"}
			n.cluster.pods.set(p)
		},
		"a policy": func(n claiming) { n.cluster.policies.set(denies("late", map[string]string{"app": "a"})) },
	} {
		for _, early := range []bool{false, true} {
			during := map[bool]string{false: "waits for its endpoint", true: "is written"}[early]
			t.Run(name+" while it "+during, func(t *testing.T) {
				cl := newCluster(scheduled("a"))
				cl.policies.set(denies("deny", map[string]string{"closed": "yes"}))
				runClaims(t, cl, func(n claiming) {
					n.sim.SetPersonality(hnsfault.Personality{Early: true, Latency: 100 * time.Millisecond})
					if early {
						n.endpoint("ep-a", "10.0.0.1")
					}
					done := n.later(claimOf("a", "s1", "10.0.0.1"))
					time.Sleep(150 * time.Millisecond)
					change(n)
					synctest.Wait()
					if !early {
						n.endpoint("ep-a", "10.0.0.1")
					}
					require.NoError(n.t, <-done)
					require.False(n.t, n.open("ep-a", "10.0.0.1"))
				})
			})
		}
	}
}

// TestClaimAgainstAnOldAddress: a pod whose address in the API is old does not get the
// endpoint of one whose CNI told of it, also after the API server knows that one's address.
func TestClaimAgainstAnOldAddress(t *testing.T) {
	at := func(s int) *metav1.Time { return &metav1.Time{Time: time.Date(2000, 1, 1, 0, 0, s, 0, time.UTC)} }
	cl := newCluster()
	b := scheduled("b")
	b.Labels = map[string]string{"app": "b"}
	b.Status.StartTime = at(-100)
	cl.pods.set(b)
	a := newPod("a", "10.0.0.1")
	a.Status.StartTime = at(-50)
	a.Labels = map[string]string{"free": "yes"}
	cl.pods.set(a)
	cl.policies.set(denies("deny", map[string]string{"app": "b"}))
	runClaims(t, cl, func(n claiming) {
		n.endpoint("ep-b", "10.0.0.1")
		_, err := n.claim(claimOf("b", "s1", "10.0.0.1"))
		require.NoError(n.t, err)
		require.False(n.t, n.open("ep-b", "10.0.0.1"))
		told := b.DeepCopy()
		told.Status.PodIP = "10.0.0.1"
		n.cluster.pods.set(told)
		time.Sleep(time.Minute)
		require.False(n.t, n.open("ep-b", "10.0.0.1"))
	})
}

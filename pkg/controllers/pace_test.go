package controllers

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/cache"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/effort"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/tool/hnssim"
)

const locals = 110 // pods of a full node

// paced is a full node on a simulator that takes its time.
type paced struct {
	t     *testing.T
	sim   *hnsfault.Sim
	cl    *cluster
	told  told
	delay atomic.Int64 // of every call
	// waiting is the id of a rule that has to come to the one endpoint that gets it.
	waiting atomic.Pointer[string]
	tenant  string // namespace of the policies that are waited for
}

// fullNode runs a node of local pods and one more, called one. Of two policies
// each local pod has the one that its tier says.
func fullNode(t *testing.T, delay time.Duration, play func(n *paced)) {
	n := &paced{t: t, sim: hnsfault.New(hnsfault.Options{Foreign: hnssim.DefaultForeign()}), cl: newCluster(), tenant: "x"}
	n.sim.OnCall(func(c hnsfault.Call, when hnsfault.When) {
		switch when {
		case hnsfault.Before:
			time.Sleep(time.Duration(n.delay.Load()))
		default:
			if id := n.waiting.Load(); id != nil && slices.ContainsFunc(c.ACLs, func(a hns.ACL) bool { return a.ID == *id }) {
				n.waiting.Store(nil)
			}
		}
	})
	for i := range locals {
		n.local(i, "a")
	}
	n.cl.pods.set(newPod("one", n.endpoint("ep-one", 1, 0)))
	n.cl.policies.remove(allowing("deny", "", ""))
	n.cl.policies.set(allowing("a", "tier", "a", 80))
	n.cl.policies.set(allowing("b", "tier", "b", 80))
	dp := dataplane.New(dataplane.Config{Client: n.sim, Node: "n1", Now: time.Now})
	run(t, Config{Source: n.cl.source(), Applier: dp, Node: "n1", OnApplied: n.told.on}, func(t *testing.T, c *Controller) {
		n.t = t
		require.NoError(t, c.Ready())
		pass(time.Minute)
		n.delay.Store(int64(delay))
		n.sim.ResetCalls()
		n.told.all = nil
		play(n)
	})
}

// endpoint gives an address its endpoint.
func (n *paced) endpoint(id string, b, c byte) string {
	addr := netip.AddrFrom4([4]byte{10, 0, b, c})
	if _, ok := n.sim.Endpoint(id); !ok {
		require.NoError(n.t, n.sim.CreateEndpoint(hnssim.SimEndpoint{ID: id, Addrs: []netip.Addr{addr}}))
	}
	return addr.String()
}

// local sets a local pod; the policy of its tier selects it.
func (n *paced) local(i int, tier string) {
	p := newPod(fmt.Sprintf("p%d", i), n.endpoint(fmt.Sprintf("ep-%03d", i), 0, byte(i)))
	p.Labels = map[string]string{"tier": tier}
	n.cl.pods.set(p)
}

// remote sets a pod of another node, which is in the set that all policies name
// or not.
func (n *paced) remote(i int, app string) {
	p := newPod(fmt.Sprintf("r%d", i), fmt.Sprintf("10.1.%d.%d", i/250, i%250))
	p.Spec.NodeName, p.Labels = "n2", map[string]string{"app": app}
	n.cl.pods.set(p)
}

// allowing is a policy on the pods with a label: they hear those of app=api.
func allowing(name, key, value string, ports ...int) *networkingv1.NetworkPolicy {
	np := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: name}}
	np.Spec.PodSelector.MatchLabels = map[string]string{key: value}
	rule := networkingv1.NetworkPolicyIngressRule{From: []networkingv1.NetworkPolicyPeer{
		{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "api"}}},
	}}
	for _, port := range ports {
		tcp, number := corev1.ProtocolTCP, intstr.FromInt(port)
		rule.Ports = append(rule.Ports, networkingv1.NetworkPolicyPort{Protocol: &tcp, Port: &number})
	}
	np.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{rule}
	return np
}

// floods are what else goes on, a thousand times in a second.
var floods = map[string]func(n *paced, i int){
	"remote pods": func(n *paced, i int) { n.remote(i%300, []string{"api", "web"}[i/300%2]) },
	"local pods":  func(n *paced, i int) { n.local(i%locals, []string{"b", "a"}[i/locals%2]) },
	"policies on all pods": func(n *paced, i int) {
		if i%2000 == 0 { // each one is 110 updates
			n.cl.policies.set(allowing("a", "tier", "a", 81+i/2000))
		}
	},
}

// arrival is how a policy came to one pod during a flood.
type arrival struct {
	took  time.Duration // until its rules were on the endpoint
	calls int           // of HNS, begun meanwhile
}

// flood lets events come, and after each lead a policy for one pod.
func (n *paced) flood(event func(n *paced, i int), leads ...time.Duration) []arrival {
	var out []arrival
	i := 0
	until := func(over func() bool) {
		for ; !over(); i++ {
			event(n, i)
			time.Sleep(time.Millisecond)
		}
	}
	for k, lead := range leads {
		began := time.Now()
		until(func() bool { return time.Since(began) >= lead })
		began = time.Now()
		key := policy.Key{Namespace: n.tenant, Name: fmt.Sprintf("new%d", k)}
		id := state.ACLID(key)
		n.waiting.Store(&id)
		n.sim.ResetCalls()
		np := allowing(key.Name, "app", "one", 443)
		np.Namespace = key.Namespace
		n.cl.policies.set(np)
		until(func() bool { return n.waiting.Load() == nil || time.Since(began) > 5*time.Minute })
		a := arrival{took: time.Since(began)}
		for _, calls := range n.sim.Counts() {
			a.calls += calls
		}
		out = append(out, a)
	}
	return out
}

// TestPolicyDuringAFlood: what a flood of events in one namespace leaves to do in HNS takes
// up to a minute, but a policy of another one is there after an apply interval and
// mostCalls calls at most: at 30 ms for a call that is within two intervals.
func TestPolicyDuringAFlood(t *testing.T) {
	var leads []time.Duration // any moment of an interval
	for i := range effort.Of(1, 6) {
		leads = append(leads, time.Second+time.Duration(i)*97*time.Millisecond)
	}
	for name, event := range effort.Some(effort.Of(1, 10), floods) {
		delays := map[time.Duration][]time.Duration{30 * time.Millisecond: leads, 200 * time.Millisecond: leads[:effort.Of(1, 2)]}
		if effort.Deep() {
			delays[2*time.Second] = leads[:1]
		}
		for delay, leads := range delays {
			t.Run(fmt.Sprintf("%s, %v", name, delay), func(t *testing.T) {
				fullNode(t, delay, func(n *paced) {
					n.otherPod()
					pass(time.Hour)
					n.told.all = nil
					arrivals := n.flood(event, leads...)
					for _, a := range arrivals {
						n.t.Logf("%v = %.1f intervals, %d calls", a.took, a.took.Seconds()/defaultApplyInterval.Seconds(), a.calls)
						require.LessOrEqual(n.t, a.took, defaultApplyInterval+mostCalls*delay)
					}
					pass(time.Hour)
					n.requireBounded()
					last := n.told.all[len(n.told.all)-1].Report
					require.True(n.t, last.Converged(), "nobody starves: %d pending", last.Pending)
				})
			})
		}
	}
}

// TestOtherTenantDuringAFlood: a tenant edits a hundred policies each second, each on a
// pod of its own here. Another one's policy waits for one turn of his, not for a
// hundred; and of his own policies none starves.
func TestOtherTenantDuringAFlood(t *testing.T) {
	const policies = 100
	edits := map[string]func(n *paced, k int){
		"small": func(n *paced, k int) {
			n.cl.policies.set(allowing(fmt.Sprintf("own%d", k%policies), "own", fmt.Sprint(k%policies), 81+k/policies))
		},
		"two batches, or one Update": func(n *paced, k int) {
			np := allowing(fmt.Sprintf("own%d", k%policies), "own", fmt.Sprint(k%policies), 80)
			peer := np.Spec.Ingress[0].From[0]
			for i := range 60 + k/policies%2*100 {
				peer.PodSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprint("peer", i)}}
				np.Spec.Ingress[0].From = append(np.Spec.Ingress[0].From, peer)
			}
			n.cl.policies.set(np)
		},
	}
	delays := []time.Duration{30 * time.Millisecond, 10 * time.Millisecond, 200 * time.Millisecond}
	for _, delay := range delays[:effort.Of(1, 3)] {
		for name, edit := range effort.Some(effort.Of(1, 2), edits) {
			otherTenant(t, fmt.Sprintf("%s, %v", name, delay), policies, delay, func(n *paced, i int) {
				if i%10 == 0 { // a thousand times in a second it is asked
					edit(n, i/10)
				}
			})
		}
	}
}

// otherTenant has a tenant edit policies, each on a pod of its own, and checks how long
// another tenant's take.
func otherTenant(t *testing.T, name string, policies int, delay time.Duration, edit func(n *paced, i int)) {
	t.Run(name, func(t *testing.T) {
		fullNode(t, delay, func(n *paced) {
			for i := range policies {
				n.cl.pods.set(labelled(newPod(fmt.Sprintf("p%d", i), n.endpoint(fmt.Sprintf("ep-%03d", i), 0, byte(i))), "own", fmt.Sprint(i)))
			}
			n.otherPod()
			time.Sleep(time.Hour)
			leads := []time.Duration{3 * time.Second, 1097 * time.Millisecond, 1331 * time.Millisecond}
			for _, a := range n.flood(edit, leads[len(leads)-effort.Of(1, 3):]...) {
				n.t.Logf("%v = %.1f intervals, %d calls", a.took, a.took.Seconds()/defaultApplyInterval.Seconds(), a.calls)
				require.LessOrEqual(n.t, a.took, defaultApplyInterval+mostCalls*delay)
			}
			pass(time.Hour)
			require.True(n.t, n.told.all[len(n.told.all)-1].Report.Converged())
		})
	})
}

// otherPod adds a pod of another namespace, whose policies are waited for from then on.
func (n *paced) otherPod() {
	n.tenant = "y"
	other := labelled(newPod("other", n.endpoint("ep-other", 3, 1)), "app", "one")
	other.Namespace, other.UID = n.tenant, "other"
	n.cl.pods.set(other)
}

// labelled is a pod with one label.
func labelled(p *corev1.Pod, key, value string) *corev1.Pod {
	p.Labels = map[string]string{key: value}
	return p
}

// mostCalls is what is left to do when the interval is over (sets, an endpoint,
// removals) and then before the rules are there (sets, another endpoint, its own).
const mostCalls = 16

// requireBounded checks what a flood may cost: HNS rests from each transaction, and
// of sets there is one request per verb and type.
func (n *paced) requireBounded() {
	for i, a := range n.told.all {
		sets, others := 0, 0
		for op, calls := range a.Report.Calls {
			if strings.HasPrefix(op, "SetPolicy/") {
				sets += calls
			} else {
				others += calls
			}
		}
		require.LessOrEqual(n.t, sets, 4)
		if i+1 == len(n.told.all) {
			break
		}
		rested := n.told.all[i+1].Report.Started.Sub(a.Report.Started.Add(a.Report.Took))
		limit := defaultApplyInterval
		if others > 0 {
			limit -= a.Report.Took // updates go on after an interval
		}
		require.GreaterOrEqual(n.t, rested, max(min(4*a.Report.Busy, limit), 20*time.Millisecond))
	}
}

// TestNewPodDuringAFlood: a pod that comes meanwhile has its rules after a few calls,
// whatever the interval and however long HNS has to rest.
func TestNewPodDuringAFlood(t *testing.T) {
	for name, event := range effort.Some(effort.Of(1, 10), floods) {
		for _, delay := range []time.Duration{30 * time.Millisecond, 200 * time.Millisecond} {
			t.Run(fmt.Sprintf("%s, %v", name, delay), func(t *testing.T) {
				fullNode(t, delay, func(n *paced) {
					i := 0
					for pod := range effort.Of(1, 8) {
						for began := time.Now(); time.Since(began) < 700*time.Millisecond+time.Duration(pod)*97*time.Millisecond; i++ {
							event(n, i)
							time.Sleep(time.Millisecond)
						}
						id := fmt.Sprintf("ep-new%d", pod)
						p := newPod(id, n.endpoint(id, 2, byte(pod)))
						p.Labels = map[string]string{"tier": "a"}
						n.cl.pods.set(p)
						began := time.Now()
						for ; len(n.rules(id)) == 0 && time.Since(began) < 5*time.Minute; i++ {
							event(n, i)
							time.Sleep(time.Millisecond)
						}
						took := time.Since(began)
						n.t.Logf("%v", took)
						require.LessOrEqual(n.t, took, leastRest+mostCallsOfNew*delay)
					}
				})
			})
		}
	}
}

// mostCallsOfNew is what is left to do when a new pod comes (sets, an endpoint,
// removals) and then before its rules are there (the enumeration, the read of the
// endpoint, sets, an endpoint of another cause, its own).
const mostCallsOfNew = 11

// rules returns our rules of an endpoint.
func (n *paced) rules(id string) []hns.ACL {
	e, ok := n.sim.Endpoint(id)
	require.True(n.t, ok)
	ours, _ := hns.Endpoint{Policies: e.Policies}.Split()
	return ours
}

func TestQueue(t *testing.T) {
	q := newQueue()
	pod, retry := ObjectKey{KindPod, cache.ObjectName{Name: "a"}}, ObjectKey{Kind: KindRetry}
	first, later := time.Unix(1000, 0), time.Unix(2000, 0)
	waiting := func(want int, most haste) {
		t.Helper()
		keys, is := q.Waiting()
		require.Equal(t, want, keys)
		require.Equal(t, most, is)
	}
	waiting(0, restful)
	q.Add(pod, restful, first)
	q.Add(pod, restful, later)
	waiting(1, restful)
	<-q.wake
	require.Empty(t, q.wake, "told once")
	q.Add(ObjectKey{KindPod, cache.ObjectName{Name: "b"}}, restful, later)
	q.Add(retry, prompt, time.Time{})
	<-q.wake
	waiting(3, prompt)
	q.Add(pod, urgent, later)
	<-q.wake // it has more haste
	q.Add(retry, prompt, later)
	waiting(3, urgent)
	require.Equal(t, map[ObjectKey]time.Time{pod: first, {KindPod, cache.ObjectName{Name: "b"}}: later, retry: later}, q.Take())
	waiting(0, restful)
	q.Add(pod, restful, later)
	<-q.wake
	require.Equal(t, map[ObjectKey]time.Time{pod: later}, q.Take())
}

package events

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// idlers is what the dataplane says of policies that select nothing.
type idlers struct {
	mu     sync.Mutex // guards following
	idle   map[policy.Key]bool
	behind bool   // changes wait
	busy   string // a namespace of which changes wait always
	asked  int
}

func (i *idlers) times() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.asked
}

func (i *idlers) set(idle bool, keys ...policy.Key) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, k := range keys {
		i.idle[k] = idle
	}
}

func (i *idlers) setBusy(namespace string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.busy = namespace
}

func (i *idlers) setBehind(behind bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.behind = behind
}

// PolicyNamespaces implements Idle.
func (i *idlers) PolicyNamespaces() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	out := []string{""}
	for k := range i.idle {
		if !slices.Contains(out, k.Namespace) {
			out = append(out, k.Namespace)
		}
	}
	slices.Sort(out)
	return out
}

// SelectingNothing implements Idle.
func (i *idlers) SelectingNothing(namespace string) (keys []policy.Key) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.asked++
	for k, idle := range i.idle {
		if idle && k.Namespace == namespace {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, policy.Key.Compare)
	return keys
}

func (i *idlers) upToDate(namespace string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return !i.behind && (i.busy == "" || namespace != i.busy)
}

func (i *idlers) namespacesBehind() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.busy == "" {
		return nil
	}
	return []string{i.busy}
}

// MaySelectIn implements Idle: names of policies say the namespace.
func (*idlers) MaySelectIn(name string, namespaces []string) bool {
	return slices.Contains(namespaces, name)
}

// runIdle plays a test with policies that select nothing.
func runIdle(t *testing.T, node string, policies []string, play func(w *world, idle *idlers)) {
	t.Helper()
	idle := &idlers{idle: map[policy.Key]bool{}}
	for _, name := range policies {
		idle.set(true, key(name))
	}
	runWith(t, node, policies, func(c *Config) { c.Idle, c.UpToDate, c.Behind = idle, idle.upToDate, idle.namespacesBehind }, func(w *world) { play(w, idle) })
}

// TestPolicyThatSelectsNothingIsTold: once for each version of it, after a minute, and in the same
// words by every node and after every restart: the server takes one.
func TestPolicyThatSelectsNothingIsTold(t *testing.T) {
	names := map[string]bool{}
	for _, node := range []string{"win-1", "win-2", "win-1"} {
		runIdle(t, node, []string{"p"}, func(w *world, _ *idlers) {
			time.Sleep(time.Hour)
			require.Empty(t, w.took(), "before the first transaction nothing is known")
			began := time.Since(w.began)
			w.activate()
			time.Sleep(3 * time.Minute)
			sent, at := w.events()
			require.Len(t, sent, 1)
			require.Equal(t, "Warning p SelectsNothing", sent[0].Type+" "+sent[0].Regarding.Name+" "+sent[0].Reason)
			require.Equal(t, "as node "+node+" sees the cluster: spec.podSelector selects no pod of namespace x, so the policy changes nothing; check its labels", sent[0].Note)
			require.GreaterOrEqual(t, at[0]-began, time.Minute)
			require.LessOrEqual(t, at[0]-began, 2*time.Minute+time.Second)
			names[sent[0].Name] = true
			time.Sleep(5 * time.Hour)
			require.Empty(t, w.took(), "it is not said again: it may be in order")

			w.write("p", 2)
			time.Sleep(3 * time.Minute)
			again := w.one()
			require.False(t, names[again.Name], "another version is news")
		})
	}
	require.Len(t, names, 1)
}

// TestPodsThatComeInTime: who applies a folder writes policies before pods.
func TestPodsThatComeInTime(t *testing.T) {
	runIdle(t, "win-1", []string{"soon", "never"}, func(w *world, idle *idlers) {
		w.activate()
		time.Sleep(59 * time.Second)
		idle.set(false, key("soon"))
		time.Sleep(time.Hour)
		require.Equal(t, []string{"Warning never SelectsNothing"}, w.took())
		idle.set(true, key("soon"))
		time.Sleep(3 * time.Minute)
		require.Equal(t, []string{"Warning soon SelectsNothing"}, w.took(), "its pods went")
	})
}

// TestLookBeforeItIsTold: pods may come between a look and the turn of the Event.
func TestLookBeforeItIsTold(t *testing.T) {
	var names []string
	for i := range burst + 10 {
		names = append(names, fmt.Sprintf("p%02d", i))
	}
	runIdle(t, "win-1", names, func(w *world, idle *idlers) {
		w.activate()
		time.Sleep(patience + time.Millisecond)
		require.Len(t, w.took(), burst)
		idle.set(false, key(names[len(names)-1]))
		time.Sleep(30 * time.Second) // the next look is later
		require.Len(t, w.took(), 9)
		time.Sleep(time.Hour)
		require.Empty(t, w.took())
	})
}

// TestNothingIsToldWhileChangesWait: pods that the API server told of may not be known yet.
func TestNothingIsToldWhileChangesWait(t *testing.T) {
	runIdle(t, "win-1", []string{"p"}, func(w *world, idle *idlers) {
		idle.setBehind(true)
		w.activate()
		time.Sleep(time.Hour)
		require.Empty(t, w.took())
		idle.setBehind(false)
		time.Sleep(30 * time.Second)
		idle.setBehind(true)
		time.Sleep(time.Hour)
		require.Empty(t, w.took(), "when it was due changes waited again")
		w.activate(ipv6("p", "a"))
		require.Equal(t, []string{"Warning p IPv6Peer"}, w.took(), "others do not wait for that")
		idle.setBehind(false)
		time.Sleep(2 * time.Second)
		require.Equal(t, []string{"Warning p SelectsNothing"}, w.took())
		w.activate()
		require.Equal(t, []string{"Normal p Programmed"}, w.took(), "that it selects nothing is no failure")
	})
}

// TestOneNamespaceWithoutPause: whose pods change all the time keeps only what is told of its own
// policies, and of ClusterNetworkPolicies that may be about its pods.
func TestOneNamespaceWithoutPause(t *testing.T) {
	runIdle(t, "win-1", []string{"p"}, func(w *world, idle *idlers) {
		busy := policy.Key{Namespace: "busy", Name: "q"}
		w.policies[busy] = &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: busy.Namespace, Name: busy.Name, UID: "uid-q", Generation: 1}}
		w.clusters = map[string]*v1alpha2.ClusterNetworkPolicy{}
		for _, name := range []string{"busy", "calm"} {
			w.clusters[name] = &v1alpha2.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Generation: 1}}
			idle.set(true, policy.Key{Name: name})
		}
		idle.set(true, busy)
		idle.setBusy("busy")
		w.activate()
		time.Sleep(3 * time.Minute)
		require.ElementsMatch(t, []string{"Warning p SelectsNothing", "Warning calm SelectsNothing"}, w.took())
		time.Sleep(time.Hour)
		require.Empty(t, w.took())
		idle.setBusy("")
		time.Sleep(30 * time.Second)
		idle.setBusy("busy") // one at least was looked at, and is not told meanwhile
		time.Sleep(10 * time.Minute)
		require.Empty(t, w.took())
		idle.setBusy("")
		time.Sleep(3 * time.Minute)
		require.ElementsMatch(t, []string{"Warning q SelectsNothing", "Warning busy SelectsNothing"}, w.took())
	})
}

// TestLookWhileANamespaceIsBehind: of ClusterNetworkPolicies that may be about it none is added, and
// none that was found goes; also when what was due turns out to select something.
func TestLookWhileANamespaceIsBehind(t *testing.T) {
	of := func(name string) policy.Key { return policy.Key{Name: name} }
	idle := &idlers{idle: map[policy.Key]bool{of("calm"): true, of("busy"): true}}
	r := &Recorder{cfg: Config{Idle: idle, UpToDate: idle.upToDate, Behind: idle.namespacesBehind}}
	r.idle.in = map[string]found{}
	names := func() (out []string) {
		for key := range r.idle.in[""] {
			out = append(out, key.Name)
		}
		slices.Sort(out)
		return out
	}
	idle.setBusy("busy")
	r.lookIn("")
	require.Equal(t, []string{"calm"}, names())
	require.False(t, r.stillIdle(&fact{of: of("gone")}))
	require.Equal(t, []string{"calm"}, names(), "the other one may select pods that are not known yet")
	idle.setBusy("")
	r.lookIn("")
	require.Equal(t, []string{"busy", "calm"}, names())
	idle.setBusy("busy")
	r.lookIn("")
	require.Equal(t, []string{"busy", "calm"}, names(), "it was found before")
	idle.set(false, of("busy"))
	r.lookIn("")
	require.Equal(t, []string{"calm"}, names(), "pods that are known are enough")
}

// TestIdleClusterPolicyIsTold: and a policy that was deleted is forgotten.
func TestIdleClusterPolicyIsTold(t *testing.T) {
	runIdle(t, "win-1", []string{"gone"}, func(w *world, idle *idlers) {
		w.clusters = map[string]*v1alpha2.ClusterNetworkPolicy{"c": {ObjectMeta: metav1.ObjectMeta{Name: "c", UID: "uid-c", Generation: 1}}}
		idle.set(true, policy.Key{Name: "c"})
		w.activate()
		time.Sleep(30 * time.Second)
		w.remove("gone")
		time.Sleep(3 * time.Minute)
		e := w.one()
		require.Equal(t, "ClusterNetworkPolicy c SelectsNothing", e.Regarding.Kind+" "+e.Regarding.Name+" "+e.Reason)
		require.Contains(t, e.Note, "spec.subject selects no pod")
	})
}

// TestManyIdlePolicies: they come at the pace of all Events, and keep no warning back for long.
func TestManyIdlePolicies(t *testing.T) {
	var names []string
	for i := range 1000 {
		names = append(names, fmt.Sprintf("p%04d", i))
	}
	runIdle(t, "win-1", names, func(w *world, idle *idlers) {
		w.activate()
		time.Sleep(patience + burst*time.Second + time.Millisecond)
		require.InDelta(t, 2*burst, len(w.took()), 2)
		before := idle.times()
		time.Sleep(10 * time.Minute)
		require.InDelta(t, 600, len(w.took()), 2)
		require.Less(t, idle.times()-before, 600+2*10+10, "who asks once for each Event costs little")
		time.Sleep(time.Hour)
		require.Len(t, w.took(), 1000-2*burst-600)
		synctest.Wait()
		require.Len(t, w.ledger.said, 1000)
		for _, name := range names {
			w.remove(name)
		}
		w.activate()
		require.Empty(t, w.ledger.said, "nothing is kept of what is gone")
	})
}

// TestWhatIsWrongComesFirst: policies that select nothing wait for those of which something is
// left out, whoever is whose turn.
func TestWhatIsWrongComesFirst(t *testing.T) {
	now := time.Unix(0, 0)
	idle := &fact{topic: topic{reason: state.ReasonSelectsNothing}, of: policy.Key{Namespace: "a", Name: "p"}, due: now.Add(-time.Hour)}
	left := &fact{topic: topic{reason: state.ReasonHNSRejected}, of: policy.Key{Namespace: "b", Name: "p"}, due: now}
	l := &ledger{lastServed: map[string]uint64{"b": 7}}
	require.Negative(t, l.compare(left, idle, now))
	require.Positive(t, l.compare(idle, left, now))
	left.due = now.Add(time.Second)
	require.Negative(t, l.compare(idle, left, now), "nothing of the other is due")
}

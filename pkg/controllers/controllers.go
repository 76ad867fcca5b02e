// Package controllers turns what the API server says into transactions for the dataplane.
//
// Informers keep the fields of each object that the agent uses, and put the key of each changed
// object into one queue. One worker takes all waiting keys, reads the current objects from the
// informers' stores, and passes one transaction to the dataplane. The dataplane shares pods and
// policies with the stores. A lone event is applied at once. A stream of events gets about a fifth
// of HNS's time. Retries are keys of the same queue. Between transactions the worker reads HNS
// through an Observer, and adds a key if the read finds work.
//
// The queue is not locked while a transaction is applied, so events still arrive while HNS hangs.
package controllers

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// Applier takes transactions. Only the worker calls it, one at a time.
type Applier interface {
	// ApplyDataplane programs what a transaction changes. After an error the worker sends the same
	// objects again.
	ApplyDataplane(ctx context.Context, tx *dataplane.Transaction) (state.Report, error)
}

// Observer reads HNS between transactions. Only the worker calls it.
type Observer interface {
	// NextLook returns the next look and when it is due; a time in the past means at once. The
	// worker calls it after each transaction and each look, so the answer may stay the same until
	// then.
	NextLook() (dataplane.Look, time.Time)
	// Observe makes the look, and reports whether its findings need a transaction.
	Observe(ctx context.Context, look dataplane.Look) (due bool, err error)
}

// Source is where the objects come from. Pods, Namespaces and Policies cover the whole cluster.
// Nodes has the Node objects whose addresses count as addresses of this node: normally one,
// selected by name.
type Source struct {
	Pods       cache.ListerWatcher
	Namespaces cache.ListerWatcher
	Policies   cache.ListerWatcher
	Nodes      cache.ListerWatcher

	// ClusterPolicies has the ClusterNetworkPolicies; nil if there are none. Its List may fail with
	// ErrNoKind.
	ClusterPolicies cache.ListerWatcher
	// AllNodes has the nodes of the whole cluster. The watch starts when a ClusterNetworkPolicy
	// first has nodes as peers, or when pods of other nodes first contest an address: the Node
	// objects then decide which pod has it. AllNodes may be nil only if ClusterPolicies is nil;
	// contested addresses then stay in doubt.
	AllNodes cache.ListerWatcher
}

// Applied describes one transaction, for metrics and Events.
type Applied struct {
	Report state.Report
	Err    error // the whole transaction failed, and its objects are sent again
	// Programmed has one entry for each event that reached HNS with this transaction: the time
	// since the event came in. Several events of one object between two transactions count as one.
	Programmed []time.Duration
}

// Config is what a Controller needs.
type Config struct {
	Source  Source
	Applier Applier
	// Observer reads HNS when its NextLook is due, later after a failure and while transactions
	// wait. nil: HNS is not read between transactions.
	Observer Observer
	// Readiness tells Claim when a starting pod is ready. It may be nil if Claim is not called.
	Readiness Readiness
	// Node is this node's name; with "" every pod is local.
	Node string
	// RequireNodeAddr delays the first transaction until the Node object has an address. Without
	// the address, the probes of isolated pods would be blocked.
	RequireNodeAddr bool
	// ApplyInterval is the longest time that a change of rules waits for HNS to rest, and the
	// longest time that a transaction goes on writing endpoints while another one waits. 0 means
	// 500 ms.
	ApplyInterval time.Duration
	// Budgets limit what objects may cost. A field that is 0 has its default.
	Budgets policy.Budgets
	// OnApplied is called by the worker after each transaction. It must not block, and may be nil.
	OnApplied func(Applied)
	// Progress returns what the Applier is doing. It must not wait. If it is nil, a transaction
	// never counts as stalled.
	Progress func() state.Progress
	Logger   klog.Logger
}

const defaultApplyInterval = 500 * time.Millisecond

func (c *Config) setDefaults() {
	if c.ApplyInterval == 0 {
		c.ApplyInterval = defaultApplyInterval
	}
	c.Budgets = c.Budgets.OrDefaults()
	if c.OnApplied == nil {
		c.OnApplied = func(Applied) {}
	}
}

// Controller runs the informers and the worker.
type Controller struct {
	cfg Config // set once

	pods       *store[desired.Pod]
	namespaces *store[desired.Namespace]
	policies   *store[keptPolicy]
	nodes      *store[[]netip.Addr] // the addresses of this node
	clusters   *store[keptCluster]
	allNodes   *nodeWatch
	informers  []*informer // of all kinds but allNodes

	queue     *queue
	claims    claims
	finished  finishedPods
	synced    chan struct{} // closed when all informers have their first list
	addressed chan struct{} // a signal that the Node object has an address, of capacity 1
	status    status
}

// New returns a Controller that Run starts.
func New(cfg Config) *Controller {
	cfg.setDefaults()
	q := newQueue()
	c := &Controller{
		cfg: cfg, queue: q, claims: claims{queue: q, byPod: map[desired.PodKey]*podClaim{}}, finished: finishedPods{pods: map[desired.PodKey]bool{}},
		synced: make(chan struct{}), addressed: make(chan struct{}, 1),
	}
	c.status.apply = errors.New("not everything is known and programmed yet")
	pods := keptPods(cfg.Node, cfg.Budgets)
	pods.gone = c.finished.gone
	c.pods = newStore(pods, c.podChanged)
	c.namespaces = newStore(keptNamespaces(), func(key Key, _, _ *desired.Namespace) { q.AddEvent(key, restful) })
	c.policies = newStore(keptPolicies(cfg.Budgets), func(key Key, _, _ *keptPolicy) { q.AddEvent(key, prompt) })
	c.nodes = newStore(keptNodes(), func(key Key, _, is *[]netip.Addr) {
		if is != nil && len(*is) > 0 {
			signal(c.addressed)
		}
		q.AddEvent(key, prompt)
	})
	c.clusters = newStore(keptClusters(), func(key Key, _, is *keptCluster) {
		if is != nil && is.nodes {
			c.allNodes.need()
		}
		q.AddEvent(key, prompt)
	})
	c.allNodes = newNodeWatch(cfg.Source.AllNodes, cfg.Logger, func(key Key, _, _ *clusterNode) { q.AddEvent(key, restful) }, c.nodesDecided)
	c.informers = []*informer{
		newInformer(KindPod, c.pods, cfg.Source.Pods, cfg.Logger),
		newInformer(KindNamespace, c.namespaces, cfg.Source.Namespaces, cfg.Logger),
		newInformer(KindPolicy, c.policies, cfg.Source.Policies, cfg.Logger),
		newInformer(KindNode, c.nodes, cfg.Source.Nodes, cfg.Logger),
	}
	if cfg.Source.ClusterPolicies != nil {
		c.informers = append(c.informers, newInformer(KindClusterPolicy, c.clusters, cfg.Source.ClusterPolicies, cfg.Logger))
	}
	return c
}

// podChanged enqueues a pod that changed. A new pod of this node is urgent, because it is open
// until its endpoint is written.
func (c *Controller) podChanged(key Key, was, is *desired.Pod) {
	if is == nil || is.Local {
		c.claims.podChanged(desired.PodKey(key.ObjectName), is)
	}
	h := restful
	switch {
	case arrives(was, is):
		h = urgent
	case is != nil && is.Local:
		h = prompt
	}
	c.queue.AddEvent(key, h)
}

// arrives reports whether a pod is new on this node, or has a new address. Each address of a pod has
// its own endpoint.
func arrives(was, is *desired.Pod) bool {
	has := func(p *desired.Pod) bool {
		return p != nil && p.Local && !p.HostNetwork && !p.Finished && p.Addr.IsValid()
	}
	return has(is) && (!has(was) || was.UID != is.UID || was.Addr != is.Addr)
}

// finishedPods records which deleted pods had finished, until the worker asks. The worker itself
// may never see the finished state, and it must know: the containers of an unfinished pod may run on.
type finishedPods struct {
	mu   sync.Mutex              // guards pods
	pods map[desired.PodKey]bool // false if one of the deleted pods of the name had not finished
}

// gone records the last state of a deleted pod.
func (f *finishedPods) gone(p *desired.Pod) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before, known := f.pods[p.Key()]
	f.pods[p.Key()] = p.Finished && (before || !known)
}

// take reports whether all recorded pods of a name had finished, and removes their record.
func (f *finishedPods) take(key desired.PodKey) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	finished := f.pods[key]
	delete(f.pods, key)
	return finished
}

// Policy returns the latest known version of a policy, or false if there is none. The key of a
// ClusterNetworkPolicy has no namespace. The object belongs to the informer and must not be
// changed.
func (c *Controller) Policy(key policy.Key) (metav1.Object, bool) {
	if cnp := c.clusters.get(cache.ObjectName(key)); cnp != nil {
		return cnp.object, true
	}
	if np := c.policies.get(cache.ObjectName(key)); np != nil {
		return np.object, true
	}
	return nil, false
}

// Run runs until ctx is done and all goroutines that it started have ended. It must be called only
// once.
func (c *Controller) Run(ctx context.Context) {
	ctx = klog.NewContext(ctx, c.cfg.Logger)
	var wg sync.WaitGroup
	defer wg.Wait()

	for _, i := range c.informers {
		wg.Go(func() { i.run(ctx) })
	}
	wg.Go(func() { c.allNodes.run(ctx) })
	c.work(ctx)
}

// Package controllers turns what the API server says into transactions for the
// dataplane.
//
// Informers keep of each object what is of use, put the key of what changed into
// one queue, and do nothing else. One worker takes every pending key, reads the
// objects' present state from the informers' stores, builds one transaction and
// hands it over: the dataplane shares its pods and policies. A lone event is
// applied at once; of many that come in a row HNS takes a fifth of its time. Retries
// are keys of the same queue. Between transactions the worker reads HNS through
// Observe, and adds a key when that finds work.
//
// The queue is never locked while a transaction is applied: events keep coming
// in while HNS hangs.
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
	// ApplyDataplane programs what a transaction changes. After an error the
	// same objects come again.
	ApplyDataplane(ctx context.Context, tx *dataplane.Transaction) (state.Report, error)
}

// Observer reads HNS between transactions. Only the worker calls it.
type Observer interface {
	// NextLook says what to read next, and when; a time in the past means at once. It is
	// asked again after each transaction and each look, so its answer need not change
	// until then.
	NextLook() (dataplane.Look, time.Time)
	// Observe reads it, and reports whether a transaction is due for what it found.
	Observe(ctx context.Context, look dataplane.Look) (due bool, err error)
}

// Source is where the objects come from. Pods, Namespaces and Policies are
// those of the whole cluster; Nodes are those whose addresses count as the
// node's: normally one, selected by name.
type Source struct {
	Pods       cache.ListerWatcher
	Namespaces cache.ListerWatcher
	Policies   cache.ListerWatcher
	Nodes      cache.ListerWatcher

	// ClusterPolicies are the ClusterNetworkPolicies; nil: there are none. A list may
	// fail with ErrNoKind.
	ClusterPolicies cache.ListerWatcher
	// AllNodes are those of the whole cluster. They are watched from the first time on that
	// a ClusterNetworkPolicy has nodes as peers or pods of other nodes contest an address: the Node objects
	// then decide which of them has it. nil only where ClusterPolicies is; such an address stays in doubt.
	AllNodes cache.ListerWatcher
}

// Applied is what one transaction did, for whoever measures.
type Applied struct {
	Report state.Report
	Err    error // of the whole transaction: what it holds comes again
	// Programmed has one entry for each event that is in HNS now and was not
	// before this transaction: the time since the event came in. Several events
	// of one object between two transactions are one.
	Programmed []time.Duration
}

// Config is what a Controller needs.
type Config struct {
	Source  Source
	Applier Applier
	// Observer is asked when its NextLook says, later after it failed and while
	// transactions are due; nil means never.
	Observer Observer
	// Readiness says when a pod that Claim tells of is ready. It is nil where nobody calls
	// that.
	Readiness Readiness
	// Node is this node's name; with "" every pod is local.
	Node string
	// RequireNodeAddr keeps everything back until the Node object has an
	// address: without one an isolated pod's probes would be cut off.
	RequireNodeAddr bool
	// ApplyInterval is how long a change of rules waits at most for HNS to rest, and how
	// long a transaction may go on with endpoints while another one is due; 0 means 500
	// ms.
	ApplyInterval time.Duration
	// Budgets are the limits of what objects may cost. A field that is 0 has its default.
	Budgets policy.Budgets
	// OnApplied is told of every transaction, by the worker: it must not block.
	// nil: nobody is.
	OnApplied func(Applied)
	// Progress says where the Applier is. It never waits. Without it every transaction
	// counts as one that makes progress.
	Progress func() state.Progress
	// Logger takes what happens.
	Logger klog.Logger
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
	synced    chan struct{} // closed when every informer is
	addressed chan struct{} // a signal that the Node object has an address, of capacity 1
	status    status
}

// New returns a Controller that Run starts.
func New(cfg Config) *Controller {
	cfg.setDefaults()
	q := newQueue()
	c := &Controller{
		cfg: cfg, queue: q, claims: claims{queue: q, told: map[desired.PodKey]*podClaim{}}, finished: finishedPods{pods: map[desired.PodKey]bool{}},
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
			select {
			case c.addressed <- struct{}{}:
			default:
			}
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

// podChanged enqueues a pod that changed. A pod that is new on this node is open until its endpoint
// is written.
func (c *Controller) podChanged(key Key, was, is *desired.Pod) {
	if is == nil || is.Local {
		c.claims.sees(desired.PodKey(key.ObjectName), is)
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

// Policy returns a policy as it was last seen; false when there is none. A ClusterNetworkPolicy has no
// namespace. The object belongs to the informer and must not be changed.
func (c *Controller) Policy(key policy.Key) (metav1.Object, bool) {
	if cnp := c.clusters.get(cache.ObjectName(key)); cnp != nil {
		return cnp.object, true
	}
	if np := c.policies.get(cache.ObjectName(key)); np != nil {
		return np.object, true
	}
	return nil, false
}

// Run runs until ctx is done and everything it started has ended. It is called
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

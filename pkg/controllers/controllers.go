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

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
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
	if c.Progress == nil {
		c.Progress = func() state.Progress { return state.Progress{} }
	}
}

// Controller runs the informers and the worker.
type Controller struct {
	cfg Config // set once

	pods       *store[*corev1.Pod, desired.Pod]
	namespaces *store[*corev1.Namespace, desired.Namespace]
	policies   *store[*networkingv1.NetworkPolicy, keptPolicy]
	nodes      *store[*corev1.Node, []netip.Addr] // the addresses of this node
	clusters   *store[metav1.Object, keptCluster]
	allNodes   *nodeWatch
	informers  []*informer // of all kinds but allNodes

	queue    *queue
	claims   claims
	finished sync.Map      // name → whether all pods of the name that were deleted since the worker last asked had finished
	synced   chan struct{} // closed when all informers have their first list
	status   status
}

// New returns a Controller that Run starts.
func New(cfg Config) *Controller {
	cfg.setDefaults()
	q := newQueue()
	c := &Controller{
		cfg: cfg, queue: q, claims: claims{queue: q, byPod: map[desired.PodKey]*podClaim{}}, synced: make(chan struct{}),
	}
	c.status.apply = errors.New("not everything is known and programmed yet")
	pods := keptPods(cfg.Node, cfg.Budgets)
	pods.gone = c.podGone
	c.pods = newStore(pods, c.podChanged)
	c.namespaces = newStore(keptNamespaces(), func(key ObjectKey, _, _ *desired.Namespace) { q.Add(key, restful, time.Now()) })
	c.policies = newStore(keptPolicies(cfg.Budgets), func(key ObjectKey, _, _ *keptPolicy) { q.Add(key, prompt, time.Now()) })
	c.nodes = newStore(keptNodes(), func(key ObjectKey, _, _ *[]netip.Addr) { q.Add(key, prompt, time.Now()) })
	c.clusters = newStore(keptClusters(), func(key ObjectKey, _, is *keptCluster) {
		if is != nil && is.nodes {
			c.allNodes.need()
		}
		q.Add(key, prompt, time.Now())
	})
	c.allNodes = newNodeWatch(cfg.Source.AllNodes, cfg.Logger, func(key ObjectKey, _, _ *clusterNode) { q.Add(key, restful, time.Now()) }, c.nodesDecided)
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

// podGone records whether a deleted pod had finished: the worker may never see its finished state.
func (c *Controller) podGone(name cache.ObjectName, last *desired.Pod) {
	before, known := c.finished.Load(name)
	c.finished.Store(name, last.Finished && (!known || before == true))
}

// podChanged enqueues a pod that changed. A pod of this node that is new or has a new address is
// urgent: each address has its own endpoint, which is open until it is written.
func (c *Controller) podChanged(key ObjectKey, was, is *desired.Pod) {
	h := restful
	if is != nil && is.Local {
		h = prompt
		moved := was == nil || was.UID != is.UID || was.Addr != is.Addr
		if moved && is.Addr.IsValid() && !is.HostNetwork && !is.Finished {
			h = urgent
		}
	}
	if is == nil || is.Local {
		c.claims.podChanged(desired.PodKey(key.ObjectName), is)
	}
	c.queue.Add(key, h, time.Now())
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

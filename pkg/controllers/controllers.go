package controllers

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

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

// Observer reads HNS for the reconciler.
type Observer interface {
	// NextLook says what to read next, and when; a time in the past means at once. It is
	// asked again after each transaction and each look, so its answer need not change
	// until then.
	NextLook() (dataplane.Look, time.Time)
	// Observe reads it, and reports whether a transaction is due for what it found.
	Observe(ctx context.Context, look dataplane.Look) (due bool, err error)
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
	// JudgeContests makes the Node objects decide which of several pods of other nodes has an
	// address that they all claim. Without it, such an address stays in doubt.
	JudgeContests bool
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

// Controller runs the informers, the worker and the reconciler.
type Controller struct {
	cfg       Config // set once
	informers informers
	nodes     *nodeWatch
	contests  *contests
	queue     *queue
	arrivals  arrivals
	claims    *claims
	finished  *finishedPods

	synced chan struct{} // closed when every informer is

	status status

	running atomic.Bool   // a transaction runs, or begins
	ended   chan struct{} // full when one has ended that the reconciler was not told of
}

// New returns a Controller that Run starts.
func New(cfg Config) *Controller {
	cfg.setDefaults()
	c := &Controller{
		cfg:      cfg,
		queue:    newQueue(),
		arrivals: arrivals{},
		claims:   newClaims(),
		finished: newFinishedPods(),
		synced:   make(chan struct{}),
		ended:    make(chan struct{}, 1),
	}
	c.informers = newInformers(cfg.Source, cfg.Node, cfg.Budgets, cfg.Logger, c.event)
	c.informers.pods.gone = c.finished.gone
	c.nodes = newNodeWatch(cfg.Source.AllNodes, cfg.Logger, c.event, func(is nodesState, policies []string) {
		if is == nodesMissing && len(policies) > 0 {
			cfg.Logger.Info("the nodes of the cluster are not known yet, policies that name nodes are closed", "waited", nodesPatience, "policies", len(policies))
		}
		for _, name := range policies {
			c.queue.Add(Key{Kind: KindClusterPolicy, Name: name})
		}
		c.contests.again()
	})
	c.contests = &contests{queue: c.queue}
	if cfg.JudgeContests && cfg.Source.AllNodes != nil {
		c.contests.nodes = c.nodes
	}
	return c
}

// event takes the key of an object that changed. The informers call it, that of
// each kind from its own goroutine.
func (c *Controller) event(key Key) {
	c.queue.AddEvent(key, time.Now(), c.haste(key))
	switch key.Kind {
	case KindClusterPolicy: // after its key: nodes go with the policy that named them, or later
		p, ok := c.informers.clusters.get(key.name())
		c.nodes.want(key.Name, ok && p.nodes)
	case KindClusterNode:
		c.contests.again()
	default:
	}
}

// haste returns how much haste a change of an object has. Pods of other nodes and
// namespaces are in sets alone.
func (c *Controller) haste(key Key) haste {
	switch key.Kind {
	case KindPod:
		p, _ := c.informers.pods.get(key.name())
		pod := desired.PodKey{Namespace: key.Namespace, Name: key.Name}
		c.claims.sees(pod, p)
		switch {
		case c.arrivals.comes(pod, p):
			return urgent
		case p != nil && p.Local:
			return prompt
		}
		return restful
	case KindNamespace, KindClusterNode:
		return restful
	default:
		return prompt
	}
}

// Run runs until ctx is done and everything it started has ended. It is called
// once.
func (c *Controller) Run(ctx context.Context) {
	ctx = klog.NewContext(ctx, c.cfg.Logger)
	var wg sync.WaitGroup
	defer wg.Wait()

	for _, i := range c.informers.all {
		wg.Go(func() { i.run(ctx) })
	}
	wg.Go(func() { c.nodes.run(ctx) })
	wg.Go(func() { c.contests.run(ctx) })
	if c.cfg.Observer != nil {
		wg.Go(func() { c.reconcile(ctx) })
	}
	c.work(ctx)
}

// Package dataplane is the one writer of a node's HNS state.
//
// A caller that learns of a change puts it into a Transaction and calls ApplyDataplane, which is
// the only way to write. ApplyDataplane runs these steps in order. Each is a function of that
// name, in a file of that name:
//
//	stage           applies the changes to the desired state
//	read            reads what is not known of HNS
//	planSets        finds which sets differ
//	writeSets       creates and updates sets
//	writeEndpoints  adds and replaces the ACLs of one endpoint after the other
//	removeSets      deletes the sets that nothing needs
//	record          returns a report
//
// Observe is a transaction that only reads. The controllers call it for each look.
//
// There are two locks. A transaction holds apply from its beginning to its end, so it is the only
// writer. mu, taken after apply, guards the state. A transaction holds mu except during calls of
// HNS: ask releases it, makes the call, and takes it again. So dumps never wait for HNS:
//
//	apply       ████████████████████████████████████████████████████████████████
//	mu          ████   ████                 █████     ████████
//	                ask ─ call of HNS ─ ask     ask ...       report
package dataplane

import (
	"cmp"
	"context"
	"net/netip"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/winnpm/winnpm/pkg/backoff"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/endpoints"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// Config is what a Dataplane needs.
type Config struct {
	Client hns.Client
	Node   string // for the dump only
	// Now reads the clock.
	Now func() time.Time
	// GracePeriod is how long a set stays in HNS after nothing needs it.
	GracePeriod time.Duration
	// MaxBatchedACLs is the number of ACLs in one Add; 0 means 30.
	MaxBatchedACLs int
	// MaxRepairs is the number of endpoints that one transaction writes only
	// because another program changed them. The next transaction writes more. 0 means 32.
	MaxRepairs int
	// BaseACLs are rules that every local endpoint with a pod gets, isolated or
	// not; they have our prefix. See acl.CalicoBase.
	BaseACLs []hns.ACL
	// Unchecked turns the versions of endpoints off: no write is compared
	// with the present state or read back. See package versioned.
	Unchecked bool
	// LookPeriod is the time in which NextLook names each object once. 0 means a minute.
	LookPeriod time.Duration
	// Budgets bound how many members and ACLs policies result in; 0 means the default.
	Budgets policy.Budgets
	// DryRun has ApplyDataplane read and not write.
	DryRun bool
}

const (
	defaultBatchedACLs = 30
	defaultRepairs     = 32
	defaultLookPeriod  = time.Minute
)

// Dataplane programs one node. Its methods are safe for concurrent use.
type Dataplane struct {
	client hns.Client
	now    func() time.Time

	// apply is the lock of the transaction that runs. It is taken before mu. It is a channel,
	// because testing/synctest regards a goroutine that waits for a channel as blocked, and one
	// that waits for a mutex not.
	apply    chan struct{}
	progress *progress // of the transaction that holds apply; read without a lock

	mu      sync.Mutex // guards the fields below; never held during a call of HNS
	node    *nodeState
	changed chan struct{} // closed when a transaction releases mu; nil if no WaitReady waits
}

// nodeState is the state that Dataplane.mu guards: the desired state of the node, and the known
// state of HNS. Its methods neither call HNS nor read a clock.
type nodeState struct {
	cfg      Config
	progress *progress
	clock    time.Time // when mu was taken last

	cache     *ipsets.Cache    // desired and actual sets
	desired   *desired.State   // objects of the cluster, and the rules that follow from them
	endpoints *endpoints.Table // desired and actual endpoints, and the queue of their updates

	setWork
	looks      looks
	lostDue    time.Time // when a lost pod has to end, zero for never
	generation uint64    // of transactions
	reports    []state.Report
}

// New returns a Dataplane that has no objects and has read nothing of HNS.
func New(cfg Config) *Dataplane {
	cfg.MaxBatchedACLs = cmp.Or(cfg.MaxBatchedACLs, defaultBatchedACLs)
	cfg.MaxRepairs = cmp.Or(cfg.MaxRepairs, defaultRepairs)
	cfg.LookPeriod = cmp.Or(cfg.LookPeriod, defaultLookPeriod)
	cfg.Budgets = cfg.Budgets.OrDefaults()
	d := &Dataplane{client: cfg.Client, now: cfg.Now, apply: make(chan struct{}, 1), progress: &progress{now: cfg.Now}}
	cfg.Client, cfg.Now = nil, nil // nodeState must not use them
	cache := ipsets.NewCache()
	objects := desired.New(desired.Settings{Budgets: cfg.Budgets, BaseACLs: cfg.BaseACLs}, cache, d.progress.Note)
	d.node = &nodeState{
		cfg: cfg, progress: d.progress, cache: cache, desired: objects,
		endpoints: endpoints.New(
			endpoints.Settings{MaxBatchedACLs: cfg.MaxBatchedACLs, MaxRepairs: cfg.MaxRepairs, LookPeriod: cfg.LookPeriod, Node: cfg.Node, DryRun: cfg.DryRun},
			endpoints.Dependencies{Cache: cache, Desired: objects}),
		setWork: setWork{
			omitted: map[ipsets.Name]bool{},
			refused: map[ipsets.Name]*backoff.Again{}, removals: map[ipsets.Name]*backoff.Again{},
		},
	}
	return d
}

// lock takes the state lock.
func (d *Dataplane) lock() {
	d.mu.Lock()
	d.node.clock = d.now()
	d.node.endpoints.Clock = d.node.clock
}

// unlock releases the state lock within a transaction, and wakes the callers of WaitReady.
func (d *Dataplane) unlock() {
	if d.changed != nil {
		close(d.changed)
		d.changed = nil
	}
	d.mu.Unlock()
}

// with calls do with the state locked. do must not call HNS.
func (d *Dataplane) with(do func(*nodeState)) {
	d.lock()
	defer d.mu.Unlock()
	do(d.node)
}

// Progress returns where the running transaction is. It never waits for a lock.
func (d *Dataplane) Progress() state.Progress { return d.progress.Now() }

// WaitReady returns nil as soon as the endpoint of a pod's sandbox has the rules that the
// pod should have, and HNS shows the pod's address in the sets that it belongs to, and in no
// others, in a state that was staged with the sandbox's round or a later one. When ctx ends
// before, the error says what was missing.
func (d *Dataplane) WaitReady(ctx context.Context, key desired.PodKey, uid types.UID, sandbox state.Sandbox) error {
	for {
		var err error
		var changed chan struct{}
		d.with(func(n *nodeState) {
			if err = n.endpoints.PodReady(key, uid, sandbox); err != nil && d.changed == nil {
				d.changed = make(chan struct{})
			}
			changed = d.changed
		})
		if err == nil {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return err
		}
	}
}

// HasPodAt reports whether the API server or the CNI says that a pod of this node has an
// address. It never waits for HNS.
func (d *Dataplane) HasPodAt(addr netip.Addr) (has bool) {
	d.with(func(n *nodeState) {
		for p := range n.desired.Locals() {
			has = has || p.Addr == addr
		}
	})
	return has
}

// Selecting returns the policies that select a local pod, sorted. It never waits
// for HNS.
func (d *Dataplane) Selecting(pod desired.PodKey) (keys []policy.Key) {
	d.with(func(n *nodeState) { keys = n.desired.Selecting(pod) })
	return keys
}

package dataplane

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/pieces"
	"github.com/winnpm/winnpm/pkg/policy"
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
	// because somebody else changed them; the next goes on. 0 means 32.
	MaxRepairs int
	// BaseACLs are rules that every local endpoint with a pod gets, isolated or
	// not; they have our prefix. See CalicoBase.
	BaseACLs []hns.ACL
	// Unchecked turns the versions of endpoints off: writes are neither compared
	// with what is there nor read back. See package versioned.
	Unchecked bool
	// LookPeriod is how long it takes until each object was looked at once; 0: a
	// minute.
	LookPeriod time.Duration
	// Budgets bound what policies come to, in members and in HNS; 0 means the default.
	Budgets policy.Budgets
	// DryRun makes ApplyDataplane stop after the plan, which the report shows.
	DryRun bool
}

const (
	defaultBatchedACLs = 30
	defaultRepairs     = 32
	keptReports        = 20
)

// Dataplane programs one node. Its methods are safe for concurrent use.
type Dataplane struct {
	cfg Config // set once

	// door is held for a whole ApplyDataplane: it makes it the one writer.
	// Taken before mu.
	door sync.Mutex

	// walking is held for a whole walk over the state: it makes it one at a time.
	// Taken before mu, and by no transaction.
	walking sync.Mutex

	progress *progress // of the transaction that holds door; read without a lock

	mu         fairMutex // guards following; never held across an HNS call
	cache      *ipsets.Cache
	owners     *ipsets.Owners[*podState]
	members    *members
	families   *families
	policies   map[policy.Key]*policyState
	byNS       map[string]map[policy.Key]*policyState // policies by namespace
	switched   map[*policyState]struct{}              // to become active or idle, within one staging
	crowds     crowds
	local      map[types.UID]*podState // local pods to which endpoints with their address belong
	contested  map[netip.Addr]bool     // addresses of those that others claim as well
	misplaced  map[PodKey]bool         // local pods that report an address that no pod can have
	nodeAddrs  []netip.Addr
	endpoints  map[string]*endpoint
	byAddr     map[netip.Addr][]*endpoint
	problems   map[policy.Key]bool        // policies with something left out
	dirty      map[*endpoint][]policy.Key // to be rendered again, because of policies or, without one, something else
	check      map[string]bool            // endpoints to be read: their pod is gone
	unread     string                     // endpoint at which the last transaction left off reading, "" for none
	moved      map[string]uint64          // set id, or GUID of one that is gone → write sequence of its last move; a look at the sets clears it
	folded     uint64                     // write sequence of the last observation
	leftOut    map[ipsets.Name]bool       // sets that HNS refused
	sequence   uint64                     // of writes
	turn       uint64                     // of the queue of pending updates: the last that was served
	lanes      map[string]lane            // of that queue, by namespace or laneRepair, laneRetry
	generation uint64                     // of transactions
	listing    listing
	newcomers  map[string]*newcomer // enumerated and not read yet
	strangers  map[string]again     // enumerated, and elsewhere, by GUID in lower case; when they are read again
	looks      looks
	spellings  spellings
	cut        bool // others' ACLs go back cut: HNS refused them as they are shown
	sets       retry
	setWork    setWork
	refusals   map[uint32]uint64 // by HRESULT; at most maxCodes and OtherCodes
	fresh      bool              // our sets were not read yet
	reports    []Report
	now        time.Time      // when the last transaction began
	found      []EndpointSeen // endpoints seen for the first time, to be reported
	drift      drift
	conflicts  Conflicts

	policyCopies pieces.Copies[policy.Key, *policyState]
}

// retry is a backoff: 1, 2, 4 … 30 s.
type retry struct {
	tries int
	at    time.Time // zero: nothing to retry
}

const maxBackoff = 30 * time.Second

// backoff returns the pause after so many failed tries.
func backoff(tries int) time.Duration {
	if tries > 5 {
		return maxBackoff
	}
	return min(time.Second<<max(tries-1, 0), maxBackoff)
}

// spread is backoff of one of many objects: from the third try on it comes early.
func spread(id string, tries int) time.Duration {
	pause := backoff(tries)
	if tries < 3 {
		return pause
	}
	return early(pause, id, tries)
}

// early takes up to a fifth off a pause, by object and try, so that what failed
// together does not come back together for good.
func early(pause time.Duration, id string, tries int) time.Duration {
	h := fnv.New32a()
	_, _ = fmt.Fprint(h, tries, id) // a hash takes everything
	return pause - pause/5*time.Duration(h.Sum32()%1000)/1000
}

// failed schedules the next try of what failed now, in a run that began before.
// One that came before it was due does not count, nor does a second one in a run.
func (r *retry) failed(began, now time.Time) {
	if r.at.After(began) {
		return
	}
	r.tries++
	r.at = now.Add(backoff(r.tries))
}

// New returns a Dataplane that knows nothing yet.
func New(cfg Config) *Dataplane {
	if cfg.MaxBatchedACLs == 0 {
		cfg.MaxBatchedACLs = defaultBatchedACLs
	}
	if cfg.MaxRepairs == 0 {
		cfg.MaxRepairs = defaultRepairs
	}
	cfg.Budgets = cfg.Budgets.OrDefaults()
	cfg.LookPeriod = cmp.Or(cfg.LookPeriod, defaultLookPeriod)
	cache := ipsets.NewCache()
	d := &Dataplane{
		cfg:       cfg,
		progress:  newProgress(cfg.Now),
		cache:     cache,
		owners:    ipsets.NewOwners[*podState](),
		members:   newMembers(cache),
		policies:  map[policy.Key]*policyState{},
		byNS:      map[string]map[policy.Key]*policyState{},
		switched:  map[*policyState]struct{}{},
		crowds:    crowds{closed: map[*policyState]bool{}, sets: map[string]int{}},
		local:     map[types.UID]*podState{},
		contested: map[netip.Addr]bool{},
		misplaced: map[PodKey]bool{},
		endpoints: map[string]*endpoint{},
		byAddr:    map[netip.Addr][]*endpoint{},
		problems:  map[policy.Key]bool{},
		dirty:     map[*endpoint][]policy.Key{},
		check:     map[string]bool{},
		lanes:     map[string]lane{},
		newcomers: map[string]*newcomer{},
		strangers: map[string]again{},
		spellings: spellings{rules: map[hns.ACL]hns.ACL{}},
		moved:     map[string]uint64{},
		leftOut:   map[ipsets.Name]bool{},
		drift:     newDrift(),
		setWork:   newSetWork(),
		refusals:  map[uint32]uint64{},
	}
	d.listing.wanted, d.fresh = true, true // the first transaction reads what is there
	d.families = &families{
		cache: cache, byKey: map[familyKey]*family{}, byPort: map[PodPort][]*family{},
		stale: map[*view]bool{}, over: map[*policyState]Warning{},
		changed: d.renderSelectedLocked, pods: d.members.kin.serving, labels: d.members.labels,
	}
	return d
}

// ApplyDataplane folds a transaction into the state and programs what differs.
// It is the only way in for writes and runs one at a time.
//
// What HNS refuses or does not answer is in the report, stays staged, and is
// tried again by a later transaction, an empty one after Report.RetryAfter at
// the latest. The error is ctx's; the transaction is staged even then.
func (d *Dataplane) ApplyDataplane(ctx context.Context, tx *Transaction) (Report, error) {
	d.door.Lock()
	defer d.door.Unlock()
	r := &run{d: d, calls: map[string]int{}, started: d.cfg.Now(), yield: tx.yield}
	d.progress.begin()

	d.mu.Lock()
	d.generation++
	d.now = r.started
	d.cache.Advance(r.started)
	r.changes = d.stageLocked(tx)
	d.mu.Unlock()

	r.read(ctx)

	d.progress.note("planning", "", "", "")
	d.mu.Lock()
	plan := d.planLocked(r.started)
	d.mu.Unlock()

	if !d.cfg.DryRun {
		d.progress.note("writing sets", "", "", "")
		written := r.writeSets(ctx, plan.Sets)
		r.updatePods(ctx)
		d.progress.note("removing sets", "", "", "")
		r.removeSets(ctx)
		r.endSets(written)
	}
	return d.report(r, tx, plan), ctx.Err()
}

// run is one ApplyDataplane: what it asked of HNS and what came back.
type run struct {
	d       *Dataplane
	started time.Time
	changes changes
	calls   map[string]int
	busy    time.Duration // of HNS
	errs    []error
	yield   func(turns int) bool // of the transaction
	turns   int                  // endpoints read one by one, or updated
	yielded int                  // turns after which the rest was left; 0: never

	searched int  // requests for suspects, and probes
	shielded bool // newborn endpoints were isolated, as a request for sets failed
}

// call counts one HNS request, makes it, and keeps its error.
func (r *run) call(op string, do func() error) error {
	r.calls[op]++
	err := r.timed(op, do)
	if err != nil {
		r.errs = append(r.errs, err)
	}
	return err
}

// timed makes a request and adds up what HNS took for it.
func (r *run) timed(op string, do func() error) error {
	defer r.d.progress.calls(op)()
	began := r.d.cfg.Now()
	err := do()
	r.busy += r.d.cfg.Now().Sub(began)
	return err
}

// report ends a run.
func (d *Dataplane) report(r *run, tx *Transaction, plan Plan) Report {
	d.progress.note("recording", "", "", "")
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.cfg.Now()
	d.settleDriftLocked()
	d.forgetLanesLocked()
	rep := Report{
		Generation: d.generation,
		Started:    r.started,
		Took:       now.Sub(r.started),
		Busy:       r.busy,
		Objects:    tx.Len(),
		Changes:    r.changes.list(),
		Plan:       plan.Summary(),
		Calls:      r.calls,
		Pending:    len(d.pendingLocked()) + len(d.waitingLocked()),
		Warnings:   d.standingLocked().warnings(),
		RetryAfter: d.retryAfterLocked(now),
		ProbeAfter: d.probeAfterLocked(now),

		NewEndpoints: d.found,
		Repairs:      d.drift.repairs,
		Spellings:    d.newSpellingsLocked(),
		Waiting:      d.outstandingWorkLocked(),
		Yielded:      r.yielded,
	}
	if n := len(rep.Waiting); n > 0 {
		rep.Unprogrammed = rep.Waiting[n-1].To
	}
	d.found, d.drift.repairs = nil, nil
	if d.cfg.DryRun {
		rep.Plan = plan.String()
	}
	for _, err := range r.errs {
		rep.Errors = append(rep.Errors, err.Error())
	}
	rep.Longest = d.progress.end()
	d.reports = append(d.reports, rep.Clone())
	if len(d.reports) > keptReports {
		d.reports = slices.Delete(d.reports, 0, len(d.reports)-keptReports)
	}
	return rep
}

// outstandingWorkLocked returns the transactions of which something is not in HNS
// yet. A pod whose endpoint was not seen does not count: there is nothing to program,
// unless the listing failed, or what it showed is not read yet. d.mu must be held.
func (d *Dataplane) outstandingWorkLocked() []Span {
	if !d.sets.at.IsZero() || d.setWork.due || d.setWork.held || (d.listing.err != nil || d.unreadLocked()) && len(d.waitingLocked()) > 0 {
		return []Span{{0, d.generation}}
	}
	var all, out []Span
	for _, ep := range d.endpoints {
		if ep.queued > 0 {
			all = append(all, ep.wished)
		}
	}
	slices.SortFunc(all, func(a, b Span) int { return cmp.Compare(a.From, b.From) })
	for _, s := range all {
		if n := len(out); n > 0 && s.From <= out[n-1].To+1 {
			out[n-1].To = max(out[n-1].To, s.To)
		} else {
			out = append(out, s)
		}
	}
	return out
}

// retryAfterLocked returns when the next thing is due, 0 for nothing. d.mu must
// be held.
func (d *Dataplane) retryAfterLocked(now time.Time) time.Duration {
	var next due
	next.at(d.sets.at)
	next.at(d.listing.retry.at)
	if d.listing.wanted {
		next.at(now)
	}
	if d.setWork.due {
		next.at(now)
	}
	for _, n := range d.newcomers {
		if n.tries == 0 {
			next.at(now)
		}
	}
	for id, ep := range d.endpoints {
		if !d.cfg.DryRun && (ep.queued > 0 || !ep.known() || d.check[id]) {
			next.at(cmp.Or(ep.retryAt, now))
		}
	}
	return next.after(now)
}

// probeAfterLocked returns when HNS is asked again for what it refused or could not
// read, 0 for nothing. d.mu must be held.
func (d *Dataplane) probeAfterLocked(now time.Time) time.Duration {
	var next due
	if d.cfg.DryRun {
		return 0
	}
	d.setsAgainLocked(&next, now)
	for _, n := range d.newcomers {
		next.at(n.at)
	}
	for _, ep := range d.endpoints {
		if ep.owner == "" {
			continue
		}
		for _, ref := range ep.refused {
			if ref.at.After(now) {
				next.at(ref.at)
			}
		}
	}
	if len(d.probesLocked(now)) > 0 { // what is due and cannot be tried waits for something else
		next.at(now)
	}
	return next.after(now)
}

// due is the first of several times; the zero due is none.
type due struct{ first time.Time }

// at adds a time, unless it is zero.
func (d *due) at(t time.Time) {
	if !t.IsZero() && (d.first.IsZero() || t.Before(d.first)) {
		d.first = t
	}
}

// after returns how long it is until then, at least a millisecond; 0 for none.
func (d due) after(now time.Time) time.Duration {
	if d.first.IsZero() {
		return 0
	}
	return max(d.first.Sub(now), time.Millisecond)
}

// ----- references -----

// idLocked returns a set's id. d.mu must be held.
func (d *Dataplane) idLocked(n ipsets.Name) string { return d.cache.ID(n) }

// releaseLocked lets go of sets, and of their definitions when nobody is left.
// d.mu must be held.
func (d *Dataplane) releaseLocked(ref ipsets.Ref, names ...ipsets.Name) {
	gone := nameSet{}
	for _, n := range names {
		d.cache.Release(n, ref)
		if d.cache.Has(n) {
			continue
		}
		gone[n] = true
		if n.Kind() == ipsets.KindNamedPort {
			d.families.forget(n)
		}
	}
	d.members.undefine(gone)
}

// fillLocked fills a set that was just defined. d.mu must be held.
func (d *Dataplane) fillLocked(n ipsets.Name) {
	if n.Kind() == ipsets.KindNamedPort {
		d.families.fill(n)
	} else {
		d.members.fill(nameSet{n: true})
	}
}

// holdLocked makes the endpoint hold exactly these sets with one kind of
// reference. The new ones are held before the old ones are let go. What rules in
// HNS turn out to see is fed from then on. d.mu must be held.
func (d *Dataplane) holdLocked(ep *endpoint, kind ipsets.RefKind, names []ipsets.Name) {
	ref := ipsets.Ref{Kind: kind, Owner: ep.id}
	was := ep.holds[kind]
	is := make(map[ipsets.Name]bool, len(names))
	for _, n := range names {
		if !is[n] && d.cache.Hold(n, ref) {
			d.fillLocked(n)
			d.progress.piece()
		}
		is[n] = true
	}
	ep.holds[kind] = is
	var left []ipsets.Name
	for n := range was {
		if is[n] {
			continue
		}
		if now, ok := d.cache.Lookup(d.idLocked(n)); !ok || !is[now] { // an orphan may have got its name
			left = append(left, n)
		}
	}
	d.releaseLocked(ref, left...)
	d.defineLeftoversLocked()
}

// namesOfLocked returns the sets that ACLs name, of those that the cache knows,
// each once. d.mu must be held.
func (d *Dataplane) namesOfLocked(lists ...[]hns.ACL) []ipsets.Name {
	return namesOf(d.cache.Lookup, lists...)
}

// namesOf returns the sets that ACLs name, of those that lookup knows, each once.
func namesOf(lookup func(id string) (ipsets.Name, bool), lists ...[]hns.ACL) []ipsets.Name {
	var out []ipsets.Name
	seen := map[string]bool{}
	for _, acls := range lists {
		for _, a := range acls {
			for _, id := range a.SetIDs() {
				if seen[id] {
					continue
				}
				seen[id] = true
				if n, ok := lookup(id); ok {
					out = append(out, n)
				}
			}
		}
	}
	return out
}

package torture

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/test/looks"
)

// tester is what *testing.T and *rapid.T have in common.
type tester interface {
	require.TestingT
	Helper()
	Fatalf(format string, args ...any)
	Context() context.Context
}

// machine is a node with a dataplane on it, and a clock that only moves when there is something to wait for.
type machine struct {
	t      tester
	sc     *scenario
	sim    *hnsfault.Sim
	dp     *dataplane.Dataplane
	now    time.Time
	todo   *outstanding
	report state.Report
	story  []string
}

func newMachine(t tester, sc *scenario, m memo) machine {
	return machine{
		t: t, sc: sc, now: began, todo: newOutstanding(m),
		sim: hnsfault.New(hnsfault.Options{Network: sc.cni.Network.Name, Foreign: sc.cni.Endpoint}),
	}
}

// process returns a dataplane that knows nothing.
func (m *machine) process(sim *hnsfault.Sim) *dataplane.Dataplane {
	return dataplane.New(dataplane.Config{
		Client: sim, Node: node, Now: func() time.Time { return m.now },
		GracePeriod: m.sc.grace, MaxBatchedACLs: m.sc.batch,
	})
}

// sets returns the sets in HNS by their Ids.
func (m *machine) sets() map[string]hns.SetPolicy {
	out := map[string]hns.SetPolicy{}
	for _, s := range m.sim.Sets() {
		out[s.ID] = s
	}
	return out
}

func (m *machine) note(format string, args ...any) {
	m.story = append(m.story, fmt.Sprintf(format, args...))
}

// replay is one run of a scenario.
type replay struct {
	machine

	watch watch

	began   bool            // past the given part: calls count
	calls   []hnsfault.Call // since then
	applies []int           // the transactions that made them
	applied int             // transactions
	played  int             // of these, until the scenario's last step was done
	disturb *disturbance    // nil: nothing disturbs
	fired   bool
	served  bool // the transaction in which it fired is over
	kills   int
	away    bool                     // no process runs
	handed  bool                     // somebody else's hand was a step
	doing   action                   // the step
	foreign []string                 // endpoints that got a foreign rule
	whole   bool                     // a round of the reconciler that began with nothing pending
	stuck   func(hnsfault.Call) bool // what is refused for good; nil: nothing
	stuckOn string                   // an endpoint, or none
	refuse  hnsfault.Fault           // how
	refused bool                     // HNS refused content: what needs it is left out, and closed
}

func newReplay(t tester, sc *scenario, d *disturbance) *replay {
	r := &replay{machine: newMachine(t, sc, sc.memo), disturb: d, watch: newWatch()}
	r.start()
	r.sim.OnCall(r.onCall)
	return r
}

// start is a new process: it knows nothing.
func (r *replay) start() {
	r.dp = r.process(r.sim)
	clear(r.watch.seen)
	clear(r.watch.right)
}

// run plays the scenario to its end and returns what HNS has then.
func (r *replay) run() ending {
	for _, s := range r.sc.given {
		r.step(s)
	}
	r.began = true
	for _, s := range r.sc.steps {
		r.step(s)
	}
	r.played = len(r.calls)
	r.endure()
	r.calm()
	end := r.ending()
	r.checkQuiet()
	return end
}

func (r *replay) step(s step) {
	r.note("step %v", s)
	r.doing = s.do
	fired := r.fired
	defer func() { r.after(fired) }()
	switch s.do {
	case apply:
		tx := dataplane.NewTransaction()
		for _, e := range s.events {
			r.todo.change(e)
			e.tell(tx)
		}
		for _, e := range r.sim.Endpoints() {
			r.watch.newborn(e, cluster(r.todo.now.values()))
		}
		if !r.away {
			r.apply(tx)
			break
		}
		r.back()
	case settle, observe, wait, restart:
		if r.away {
			r.now = r.now.Add(s.wait)
			r.back()
			break
		}
		r.alone(s)
	case cni, hand:
		r.play(s.words)
	case stop:
		r.away = true
	case inherit:
		r.inherit(s.events)
	}
}

// after ends a step; fired is whether the disturbance came before it.
func (r *replay) after(fired bool) {
	if r.fired && !fired && r.disturb.retryFirst && !r.away {
		r.settle()
	}
}

// alone is a step of the process alone.
func (r *replay) alone(s step) {
	switch s.do {
	case settle:
		r.settle()
	case wait:
		r.wait(s.wait)
	case observe:
		r.observe()
	case restart:
		r.back()
	case apply, cni, hand, stop, inherit: // not of the process alone
	}
}

// back starts a process again.
func (r *replay) back() {
	r.note("a new process starts")
	r.away = false
	r.start()
	r.apply(r.todo.now.whole())
}

// killed is how a process ends in the middle of a call.
type killed struct{}

// apply hands a transaction over. A process that is killed by that is followed
// by one that learns of everything at once.
func (r *replay) apply(tx *dataplane.Transaction) {
	alive := func() (alive bool) {
		defer func() {
			if p := recover(); p != nil {
				if _, ok := p.(killed); !ok {
					panic(p)
				}
			}
		}()
		r.applied++
		report, err := r.dp.ApplyDataplane(r.t.Context(), tx)
		require.NoError(r.t, err)
		r.report = report
		return true
	}()
	if !alive {
		r.note("killed")
		if r.away = r.disturb.kind.down && r.doing == apply; !r.away {
			r.back()
		}
		return
	}
	r.note("applied: pending %d, unprogrammed %d, again in %v, errors %q", r.report.Pending, r.report.Unprogrammed, r.report.RetryAfter, r.report.Errors)
	r.checkErrors()
	r.checkDump()
	if r.fired && !r.served {
		r.served = true
		r.checkServed()
	}
	for _, seen := range r.report.NewEndpoints {
		r.watch.seen[seen.ID] = true
	}
	if r.whole && r.programmed() {
		r.watch.damage = damage{}
	}
	if r.report.Unprogrammed == 0 && !r.watch.damage.any() {
		r.todo.done()
		r.checkProgrammed()
		r.watch.reached(r.sim, cluster(r.todo.now.values()))
	}
}

// programmed reports whether the last transaction left nothing to do.
func (r *replay) programmed() bool { return r.report.Unprogrammed == 0 && len(r.report.Errors) == 0 }

// checkErrors: HNS rejects nothing because of our order (I1), unless somebody else wrote.
func (r *replay) checkErrors() {
	if r.handed || r.fired && r.disturb.kind.foreign {
		return
	}
	for _, text := range r.report.Errors {
		if r.fired && (strings.Contains(text, hns.ErrUnavailable.Error()) || r.refused && strings.HasPrefix(text, "hns SetPolicy/")) {
			continue
		}
		r.fail("HNS refused: %s", text)
	}
}

// settle lets time pass until nothing is due, but for the endpoints of pods that
// may never come. While something is refused for good that does not happen.
func (r *replay) settle() {
	if r.stuck != nil {
		r.wait(2 * time.Minute)
		return
	}
	for range 100 { // a pod without an endpoint is looked for once a second for a minute
		r.apply(dataplane.NewTransaction())
		after := r.report.RetryAfter
		if after == 0 || after > 20*time.Second && r.report.Unprogrammed == 0 && len(r.report.Errors) == 0 {
			return
		}
		r.now = r.now.Add(after)
	}
	r.fail("does not settle: %+v", r.report)
}

// wait lets time pass, with the retries that fall into it.
func (r *replay) wait(d time.Duration) {
	end := r.now.Add(d)
	for range 100 {
		after := r.report.RetryAfter
		if after == 0 || r.now.Add(after).After(end) {
			break
		}
		r.now = r.now.Add(after)
		r.apply(dataplane.NewTransaction())
	}
	r.now = end
}

// observe is a round of the reconciler. One that finds nothing pending and leaves
// nothing pending has repaired whatever somebody else did.
func (r *replay) observe() {
	r.whole = r.programmed()
	defer func() { r.whole = false }()
	if _, err := r.dp.Observe(r.t.Context(), looks.All(r.dp)); err != nil {
		r.note("observe: %v", err)
		return
	}
	r.apply(dataplane.NewTransaction())
}

// calm lets the node come to rest: retries, two rounds of the reconciler, the
// CNI takes away endpoints without a pod, and the grace period passes.
func (r *replay) calm() {
	r.note("calm")
	r.doing = settle
	if r.away {
		r.back()
	}
	r.settle()
	for range 2 {
		r.now = r.now.Add(5 * time.Minute)
		r.observe()
		r.settle()
		r.watch.damage = damage{}
	}
	c := cluster(r.todo.now.values())
	for _, e := range r.sim.Endpoints() {
		if !local(c, e.Addrs[0]) {
			require.NoError(r.t, r.sim.DeleteEndpoint(e.ID))
		}
	}
	r.now = r.now.Add(time.Hour)
	r.observe()
	r.settle()
	r.now = r.now.Add(time.Hour)
	r.settle()
	r.checkProgrammed()
}

// checkQuiet: nothing changed, so nothing is written, not by a new process either (I5).
func (r *replay) checkQuiet() {
	before := writes(r.sim)
	r.apply(dataplane.NewTransaction())
	if after := writes(r.sim); after != before {
		r.fail("nothing changed, and yet it writes:\n%s", r.report.Plan)
	}
	r.start()
	r.apply(r.todo.now.whole())
	if after := writes(r.sim); after != before {
		r.fail("a restart with nothing changed writes:\n%s", r.report.Plan)
	}
}

// writes counts the writes of the node so far.
func writes(sim *hnsfault.Sim) int {
	n := 0
	for op, count := range sim.Counts() {
		if isWrite(op) {
			n += count
		}
	}
	return n
}

// isWrite reports whether calls of an operation are disturbed as writes are. The enumeration of new
// endpoints is, so that other programs change something in the midst of a look too.
func isWrite(op string) bool { return !hnsfault.ReadsOnly(op) || op == hns.OpEndpointNew }

// fail ends the run with everything that a reader needs.
func (r *replay) fail(format string, args ...any) {
	r.t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "scenario %s\ndisturbance: %v\n%s\n\nstory:\n%s\n", r.sc.name, r.disturb, fmt.Sprintf(format, args...), strings.Join(r.story, "\n"))
	fmt.Fprintf(&b, "\noutstanding:\n")
	for key, versions := range r.todo.versions {
		fmt.Fprintf(&b, "%s in %d versions\n", key, len(versions))
	}
	r.t.Fatalf("%s\nHNS:\n%s", b.String(), r.sim.Dump())
}

// ending is what HNS has when all is over, without the numbers of named ports
// that no peer uses any more: their rules, which match nothing, stay until the
// endpoint's next Update (ADR 2), and so do the sets that only they name.
type ending struct {
	Sets    map[string][]string // by name; of a nested one names
	ACLs    map[string][]string // ours, by endpoint, sorted
	Foreign map[string][]string // everybody else's, by endpoint, sorted
}

func (r *replay) ending() ending {
	e := ending{Sets: map[string][]string{}, ACLs: map[string][]string{}, Foreign: map[string][]string{}}
	sets := r.sets()
	used, wasted := map[string]bool{}, map[string]bool{}
	for _, ep := range r.sim.Endpoints() {
		ours, foreign := hns.Endpoint{Policies: ep.Policies}.Split()
		e.ACLs[ep.ID], e.Foreign[ep.ID] = []string{}, []string{}
		for _, a := range ours {
			uses := used
			if hnsfault.Unused(a, sets) {
				uses = wasted
			} else {
				e.ACLs[ep.ID] = append(e.ACLs[ep.ID], fmt.Sprintf("%+v", named(a, sets)))
			}
			for _, id := range a.SetIDs() {
				uses[id] = true
				for _, member := range sets[id].Values {
					uses[member] = true // or an address, which is no Id
				}
			}
		}
		slices.Sort(e.ACLs[ep.ID])
		for _, p := range foreign {
			e.Foreign[ep.ID] = append(e.Foreign[ep.ID], string(p.Settings))
		}
		slices.Sort(e.Foreign[ep.ID])
	}
	for id, s := range sets {
		if wasted[id] && !used[id] {
			continue
		}
		values := slices.Clone(s.Values)
		for i, v := range values {
			if s.Type == hns.NestedIPSet {
				values[i] = sets[v].Name
			}
		}
		slices.Sort(values)
		e.Sets[s.Name] = append([]string{}, values...)
	}
	r.takeForeign(e)
	return e
}

// sameAs compares with the end of the run that nothing disturbed.
func (r *replay) sameAs(want, got ending) {
	if diff := gocmp.Diff(want, got); diff != "" {
		r.fail("the end differs from the undisturbed run (-undisturbed +this):\n%s", diff)
	}
}

// named words a rule with the names of its sets.
func named(a hns.ACL, sets map[string]hns.SetPolicy) hns.ACL {
	for _, field := range []*string{&a.LocalAddresses, &a.RemoteAddresses} {
		parts := strings.Split(*field, ",")
		for i, part := range parts {
			parts[i] = cmp.Or(sets[part].Name, part)
		}
		slices.Sort(parts)
		*field = strings.Join(parts, ",")
	}
	return a
}

// takeForeign takes the rules out that somebody else added: they have to be there
// still.
func (r *replay) takeForeign(e ending) {
	for _, id := range r.foreign {
		texts, there := e.Foreign[id]
		at := slices.Index(texts, string(foreignRule.Settings))
		if at < 0 && there {
			r.fail("the foreign rule on %s is gone", id)
		}
		if there {
			e.Foreign[id] = slices.Delete(texts, at, at+1)
		}
	}
}

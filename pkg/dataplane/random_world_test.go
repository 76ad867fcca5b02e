package dataplane_test

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/cnis"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/test/hnstest"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// walker is one random walk: a cluster, a node, and the dataplane between.
type walker struct {
	t       require.TestingT
	ctx     context.Context
	cluster *cluster
	sim     *hnsfault.Sim
	dp      *dataplane.Dataplane
	cfg     dataplane.Config
	now     time.Time
	report  state.Report
	ids     int // endpoints ever
	base    map[string][]hns.EndpointPolicy
	log     []string

	first *string // failure, kept as the order of maps may hide it the next time

	// What may be reported from now on.
	faulty, rejecting bool
	cut               bool // others' rules may have gone back without undocumented fields

	hasty bool // the next transaction is due after one to three endpoints
	turns int  // after how many this time

	// What HNS refuses now.
	badPort, badAddr string
}

func newWalker(t require.TestingT, ctx context.Context, cfg dataplane.Config, sim *hnsfault.Sim, c *cluster) *walker {
	w := &walker{t: t, ctx: ctx, cluster: c, sim: sim, cfg: cfg, now: time.Unix(1_700_000_000, 0), base: map[string][]hns.EndpointPolicy{}}
	w.cfg.Client, w.cfg.Node = sim, "n1"
	w.cfg.Now = func() time.Time { return w.now }
	w.dp = dataplane.New(w.cfg)
	sim.RejectACL(func(a hns.ACL) bool { return w.badPort != "" && a.Ours() && w.badPort == a.LocalPorts+a.RemotePorts })
	sim.RejectSet(func(s hns.SetPolicy) bool {
		return w.badAddr != "" && !strings.HasPrefix(s.Name, "ns-") && slices.Contains(s.Values, w.badAddr)
	})
	return w
}

func walkSim() *hnsfault.Sim { return hnsfault.New(hnsfault.Options{Foreign: hnssim.DefaultForeign()}) }

func (w *walker) note(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf(format, args...))
}

// createEndpoint is the CNI's hand.
func (w *walker) createEndpoint(id, addr string, bare bool) {
	e := hnssim.NewEndpoint{ID: id, Addrs: []netip.Addr{netip.MustParseAddr(addr)}, Netns: walkNetns[int(id[len(id)-1])%len(walkNetns)]}
	if id[len(id)-1]%2 == 1 {
		e.Addrs = append(e.Addrs, netip.MustParseAddr("fd00::1"))
	}
	all := cnis.All()
	w.base[id] = all[(len(id)+int(id[len(id)-1]))%len(all)].Endpoint // of whatever CNI
	e.Policies = slices.Clone(w.base[id])
	if bare {
		e.Policies = []hns.EndpointPolicy{}
		w.base[id] = nil
	}
	require.NoError(w.t, w.sim.CreateEndpoint(e))
	w.note("endpoint %s %s bare=%v", id, addr, bare)
}

// apply hands a transaction over and checks what must always hold then.
func (w *walker) apply(tx *dataplane.Transaction) {
	if w.hasty {
		w.turns = w.turns%3 + 1
		tx.SetYield(func(turns int) bool { return turns >= w.turns })
	}
	report, err := w.dp.ApplyDataplane(w.ctx, tx)
	require.NoError(w.t, err)
	w.report = report
	w.note("apply: %v errors %q retry %s", report.Calls, report.Errors, report.RetryAfter)
	w.checkErrors()
	w.checkForeign()
	w.checkDump()
	require.Empty(w.t, contradictions(w.dp.Dump()))
}

// applyWhole applies a transaction, and what it leaves to the next ones.
func (w *walker) applyWhole(tx *dataplane.Transaction) {
	for w.apply(tx); w.report.Yielded > 0; {
		w.apply(dataplane.NewTransaction())
	}
}

// finish applies what is due at once after a transaction. A namespace whose own endpoints
// have to follow its labels joins an allow set, or leaves a deny twin, in the transaction
// after the one that wrote these endpoints; until then the endpoints may be more closed.
// It reports whether anything was due.
func (w *walker) finish() bool {
	for rounds := 0; ; rounds++ {
		if w.report.RetryAfter == 0 || w.report.RetryAfter > time.Millisecond {
			return rounds > 0
		}
		if rounds > 10 {
			w.fail("still due at once after %d rounds: %+v", rounds, w.report)
		}
		w.now = w.now.Add(w.report.RetryAfter)
		w.applyWhole(dataplane.NewTransaction())
	}
}

// checkForeign: what others put on an endpoint survives. Half an Update may lose
// some of it.
func (w *walker) checkForeign() {
	texts := func(policies []hns.EndpointPolicy) []string {
		var out []string
		for _, p := range policies {
			if isForeign(p) {
				if w.cut {
					p, _ = p.Documented()
				}
				out = append(out, fmt.Sprintf("%s %s", p.Type, p.Settings))
			}
		}
		slices.Sort(out)
		return out
	}
	for _, e := range w.sim.Endpoints() {
		if diff := cmp.Diff(texts(w.base[e.ID]), texts(e.Policies)); diff != "" {
			w.fail("policies of others on %s (-want +got):\n%s", e.ID, diff)
		}
	}
}

// checkErrors: HNS never refuses a call because of our order. What it may say
// follows from what the walk did to it.
func (w *walker) checkErrors() {
	for _, e := range w.report.Errors {
		switch {
		case w.faulty && (strings.Contains(e, "service unavailable") || strings.Contains(e, "of no known meaning")):
		case w.rejecting && strings.Contains(e, "content that this node refuses"):
		default:
			w.fail("HNS refused: %s", e)
		}
	}
}

func (w *walker) fail(format string, args ...any) {
	text := fmt.Sprintf("%s\n%s\n%s", fmt.Sprintf(format, args...), strings.Join(w.log, "\n"), w.sim.Dump())
	if w.first != nil && *w.first == "" {
		*w.first = text
	}
	w.t.Errorf("%s", text)
	w.t.FailNow()
}

// checkDump: nothing is held for nothing, and what is neither pending nor
// unknown is as it should be.
func (w *walker) checkDump() {
	d := w.dp.Dump()
	pending, quiet := map[string]bool{}, true
	for _, p := range d.Pending {
		if p.Endpoint != "" {
			pending[p.Endpoint], quiet = true, false
		}
	}
	endpoints, sets := map[string]bool{}, wantedSets(d)
	for _, ep := range d.Endpoints {
		endpoints[ep.ID] = true
		quiet = quiet && ep.Known
		if pending[ep.ID] || !ep.Known || ep.Pod == "" {
			continue
		}
		wanted := canonicalRules(ep.Wanted)
		applied := slices.DeleteFunc(slices.Clone(ep.Applied), func(a hns.ACL) bool {
			return !slices.Contains(wanted, a) && hnstest.Unused(a, sets)
		})
		if diff := cmp.Diff(aclTexts(wanted), aclTexts(applied)); diff != "" {
			w.fail("endpoint %s is not pending and not as wanted (-want +got):\n%s", ep.ID, diff)
		}
	}
	idle := map[string]bool{}
	for _, p := range d.Policies {
		idle[p.Policy] = len(p.Selected) == 0
	}
	for _, s := range d.Sets {
		if quiet && len(s.Pins) > 0 {
			w.fail("nothing is pending, but %s is pinned by %v", s.Name, s.Pins)
		}
		for _, h := range append(slices.Clone(s.Holders), prefixed("pin ", s.Pins)...) {
			kind, owner, _ := strings.Cut(h, " ")
			if (kind == "rule" || kind == "applied" || kind == "pin") && !endpoints[owner] {
				w.fail("%s is held by %s, which is gone", s.Name, h)
			}
			if kind == "selector" && idle[owner] {
				w.fail("%s is held by %s, which selects no pod of the node", s.Name, h)
			}
		}
	}
	if w.report.RetryAfter == 0 && (len(d.Pending) > 0 || !quiet) {
		w.fail("something is outstanding and nothing is due: %+v", d.Pending)
	}
}

// wantedSets returns the sets of a dump as HNS should have them, by Id.
func wantedSets(d state.Dump) map[string]hns.SetPolicy {
	ids, out := map[string]string{}, map[string]hns.SetPolicy{}
	for _, s := range d.Sets {
		ids[s.Name] = s.ID
	}
	for _, s := range d.Sets {
		p := hns.SetPolicy{ID: s.ID, Name: s.Name, Type: hns.SetType(s.Type), Values: slices.Clone(s.Members)}
		for i, name := range p.Values {
			if p.Type == hns.NestedIPSet {
				p.Values[i] = ids[name]
			}
		}
		out[s.ID] = p
	}
	return out
}

func prefixed(prefix string, texts []string) []string {
	out := make([]string, len(texts))
	for i, text := range texts {
		out[i] = prefix + text
	}
	return out
}

func aclTexts(acls []hns.ACL) []string {
	out := make([]string, len(acls))
	for i, a := range acls {
		out[i] = fmt.Sprint(a)
	}
	slices.Sort(out)
	return out
}

// settle lets time pass until nothing is due, but for the endpoints of pods that
// may never come. What is due at once must not stay so.
func (w *walker) settle() {
	for rounds, spins := 0, 0; ; rounds++ {
		w.apply(dataplane.NewTransaction())
		after := w.report.RetryAfter
		if spins++; after > time.Millisecond || w.report.Yielded > 0 {
			spins = 0
		}
		if after == 0 || after > 20*time.Second && w.onlyWaiting() {
			return
		}
		if spins > 3 || rounds > 200 {
			w.fail("not settled after %d rounds: %+v", rounds, w.report)
		}
		w.now = w.now.Add(after)
	}
}

// onlyWaiting reports whether nothing but endpoints is outstanding.
func (w *walker) onlyWaiting() bool {
	d := w.dp.Dump()
	waiting := len(w.waiting())
	return len(w.report.Errors) == 0 && waiting > 0 && w.report.Pending == waiting &&
		!slices.ContainsFunc(d.Endpoints, func(ep state.Endpoint) bool { return !ep.Known })
}

// waiting returns the pods whose endpoint was not seen.
func (w *walker) waiting() []string {
	var out []string
	for _, p := range w.dp.Dump().Pending {
		if p.Endpoint == "" {
			out = append(out, p.Pod)
		}
	}
	return out
}

// observe reads HNS, and says whether HNS answered.
func (w *walker) observe() *dataplane.Observation {
	obs, err := w.dp.Observe(w.ctx, dataplane.Everything())
	if err != nil && !w.faulty {
		w.fail("observe: %v", err)
	}
	w.note("observe: %v", err)
	return obs
}

// reconcile is one observation, handed in at once.
func (w *walker) reconcile(tx *dataplane.Transaction) {
	if obs := w.observe(); obs != nil {
		tx.SetObservation(obs)
	}
	w.apply(tx)
}

// restarted is a new dataplane on a node as it is.
func (w *walker) restarted(sim *hnsfault.Sim) *walker {
	again := newWalker(w.t, w.ctx, w.cfg, sim, w.cluster.clone())
	again.now, again.cut = w.now, w.cut
	maps.Copy(again.base, w.base)
	again.reconcile(again.cluster.all())
	return again
}

// state is the dump without what depends on the way there.
func (w *walker) state() state.Dump {
	d := w.dp.Dump()
	d.Reports, d.Time, d.Due, d.LookAge = nil, time.Time{}, state.Due{}, 0
	for i := range d.Pods {
		d.Pods[i].Start = nil
	}
	for i := range d.Endpoints {
		ep := &d.Endpoints[i]
		ep.Next = state.Next{}
		ep.Applied = slices.SortedFunc(slices.Values(ep.Applied), func(a, b hns.ACL) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) }) // Wanted may be the same list
	}
	return d
}

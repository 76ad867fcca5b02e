package torture

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// expanders return variants of a scenario: its events in other orders and transactions.
// What HNS has in the end must be the same (I11).
var expanders = map[string]func(given, steps []step, rnd *rand.Rand) (g, s []step){
	"reversed": eachApply(func(events []event) [][]event {
		events = last(events)
		slices.Reverse(events)
		return slices.Collect(slices.Chunk(events, 1))
	}),
	"doubled": eachApply(func(events []event) [][]event {
		var out [][]event
		for _, e := range events {
			out = append(out, []event{e}, []event{e, e})
		}
		return append(out, last(events))
	}),
	"split": eachApply(func(events []event) [][]event {
		return slices.Collect(slices.Chunk(events, 1))
	}),
	"squashed": func(given, steps []step, _ *rand.Rand) (g, s []step) {
		node, events := parts(given, steps)
		return nil, append(node, step{do: apply, events: last(events)})
	},
	"shuffled": func(given, steps []step, rnd *rand.Rand) (g, s []step) {
		node, events := parts(given, steps)
		events = last(events)
		rnd.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
		for len(events)+len(node) > 0 {
			if len(node) > 0 && rnd.IntN(len(events)+len(node)) < len(node) {
				s, node = append(s, node[0]), node[1:]
				continue
			}
			n := 1 + rnd.IntN(min(3, len(events)))
			s, events = append(s, step{do: apply, events: events[:n]}), events[n:]
		}
		return nil, s
	},
}

// eachApply makes several transactions of one.
func eachApply(split func([]event) [][]event) func(given, steps []step, rnd *rand.Rand) (g, s []step) {
	all := func(steps []step) []step {
		var out []step
		for _, s := range steps {
			if s.do != apply {
				out = append(out, s)
				continue
			}
			for _, events := range split(slices.Clone(s.events)) {
				out = append(out, step{do: apply, events: events})
			}
		}
		return out
	}
	return func(given, steps []step, _ *rand.Rand) (g, s []step) { return all(given), all(steps) }
}

// last keeps the last event of each object, in order.
func last(events []event) []event {
	var out []event
	for i, e := range events {
		if !slices.ContainsFunc(events[i+1:], func(o event) bool { return o.name == e.name }) {
			out = append(out, e)
		}
	}
	return out
}

// parts returns what the CNI does and all events, each in order.
func parts(given, steps []step) (node []step, events []event) {
	for _, s := range slices.Concat(given, steps) {
		switch s.do {
		case apply, inherit:
			events = append(events, s.events...)
		case cni:
			node = append(node, s)
		case settle, wait, observe, hand, restart, stop:
		}
	}
	return node, events
}

// TestEveryOrder plays every scenario in other orders.
func TestEveryOrder(t *testing.T) {
	t.Parallel()
	for i, sc := range scenarios(t) {
		t.Run(testName(sc.name), func(t *testing.T) {
			t.Parallel()
			want := newReplay(t, sc, nil).run()
			expand(t, sc, want, i, afford())
		})
	}
}

// expand plays the variants of a scenario that the budget affords, from the first one on.
func expand(t tester, sc *scenario, want ending, first int, b budget) {
	t.Helper()
	for n, name := range slices.Sorted(maps.Keys(expanders)) {
		if (first+n)%b.orders != 0 {
			continue
		}
		rounds, expander := uint64(1), expanders[name]
		if name == "shuffled" {
			rounds = b.shuffles
		}
		for seed := range rounds {
			told := *sc
			told.name = sc.name + ", " + name
			told.splits = sc.splits || sc.batch < usualBatch // an endpoint may be born after its policies, and closes with its first batch
			told.given, told.steps = expander(sc.given, sc.steps, rand.New(rand.NewPCG(seed, 11)))
			r := newReplay(t, &told, nil)
			got := r.run()
			if diff := cmp.Diff(want, got); diff != "" {
				r.fail("seed %d: the end depends on the order (-as told +this):\n%s", seed, diff)
			}
		}
	}
}

package hostile

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/winnpm/winnpm/test/effort"
	"github.com/winnpm/winnpm/test/hostile/cluster"
)

// What an attack may cost, whatever it is.
const (
	mostHeap = 40 << 20 // bytes of the agent
	// mostLeft is what may be left when it has gone: the recorder keeps the last
	// hundreds of transactions.
	mostLeft = 16 << 20
	// mostLate is how many calls of HNS there are at most before a policy of somebody
	// else on one pod is in force, and lateLimit how long it takes.
	mostLate  = 16
	lateLimit = 500*time.Millisecond + mostLate*callTakes
	// mostFresh is how many calls there are until a pod that begins on the node is
	// closed, as pkg/controllers promises.
	mostFresh = 11
	// toldLimit is when somebody else was told of a mistake of their own.
	toldLimit = time.Minute
	// mostCalls is how many calls of HNS there are in the first minute, the looks at a
	// quiet node (some 150) included, and mostInASecond in one of its seconds.
	mostCalls     = 600
	mostInASecond = 150
	mostSent      = 4 << 20 // bytes
	// mostWarnings is how many warnings and Events there are besides
	// one for each object of the attack.
	mostWarnings = 20
	// mostRules is how many rules an endpoint of the victim has.
	mostRules = 12
	// mostCPU and mostAllocated are until the agent has nothing left to do, for each
	// byte of the attack, beside a constant. To decode an object takes a part of it, and
	// the simulator another one.
	constantCPU       = 3 * time.Second
	mostCPU           = 2 * time.Microsecond
	constantAllocated = 250 << 20
	mostAllocated     = 400
)

// check holds what an attack cost against what it may.
func (c cost) check(t *testing.T) {
	t.Helper()
	assert.LessOrEqual(t, c.heap, int64(mostHeap), "bytes of the heap")
	assert.LessOrEqual(t, c.left, int64(mostLeft), "bytes of the heap when it has gone")
	assert.LessOrEqual(t, c.lateCalls, mostLate, "calls of HNS until somebody else's policy is in force")
	assert.LessOrEqual(t, c.lateTook, lateLimit, "until somebody else's policy is in force")
	assert.LessOrEqual(t, c.fresh, mostFresh, "calls of HNS until a new pod is closed")
	assert.NotEqual(t, -1, c.fresh, "a new pod is never closed")
	assert.LessOrEqual(t, c.toldTook, toldLimit, "until somebody else is told")
	assert.LessOrEqual(t, c.calls, int64(mostCalls), "calls of HNS in a minute")
	assert.LessOrEqual(t, c.most, mostInASecond, "calls of HNS in a second")
	assert.LessOrEqual(t, c.sent, int64(mostSent), "bytes to HNS in a minute")
	assert.LessOrEqual(t, c.warnings, mostWarnings+c.objects, "warnings")
	assert.LessOrEqual(t, c.events, mostWarnings+c.objects, "Events")
	assert.LessOrEqual(t, c.rules, mostRules, "rules of an endpoint of the victim")
	assert.Empty(t, c.opens, "packets that passed")
	assert.Empty(t, c.odd, "members of sets that are nobody's address")
	if effort.Raced() {
		return // what follows it multiplies
	}
	assert.LessOrEqual(t, c.cpu, constantCPU+time.Duration(c.bytes)*mostCPU, "CPU time")
	assert.LessOrEqual(t, c.allocated, uint64(constantAllocated+c.bytes*mostAllocated), "bytes allocated")
}

// endless ends the process when an attack keeps the agent busy for so long of the
// wall's clock: nothing can be told from within a transaction that does not end.
func endless(t *testing.T, limit time.Duration) {
	timer := time.AfterFunc(limit, func() { panic(fmt.Sprintf("%s: the agent is busy since %v", t.Name(), limit)) })
	t.Cleanup(func() { timer.Stop() })
}

const longestAttack = 4 * time.Minute

// TestRows plays the known attacks that are objects. TestBombs of tool/bundle and
// TestTextsOfManifests of cmd/kubectl-npm play others.
func TestRows(t *testing.T) {
	if !effort.Deep() {
		t.Skip("make deep plays this; the flood of make test has a hundred objects of the first row")
	}
	several(t, cluster.Attacks())
}

// TestPairs plays every two rows together, one pair after the other in one cluster:
// what each leaves behind would add up.
func TestPairs(t *testing.T) {
	if !effort.Deep() {
		t.Skip("make deep plays this")
	}
	var pairs []cluster.Attack
	all := cluster.Attacks()
	for i, one := range all {
		for _, two := range all[i+1:] {
			pairs = append(pairs, cluster.Attack{Name: one.Name + "+" + two.Name, Objects: append(one.Objects[:len(one.Objects):len(one.Objects)], two.Objects...)})
		}
	}
	several(t, pairs)
}

// TestFloods plays a hundred objects of each kind that more makes worse: of a size
// that somebody may think does no harm, and of 1.5 MB. There are more with
// make hostile.
func TestFloods(t *testing.T) {
	floods := cluster.Floods(20_000)
	several(t, floods[:effort.Of(1, len(floods))])
	if !effort.Deep() {
		return // the race detector takes a minute for each of the large ones
	}
	several(t, []cluster.Attack{cluster.Mixed()})
	if effort.Full() {
		several(t, append(cluster.Floods(200_000), cluster.Floods(cluster.Largest)...))
	}
}

// several plays attacks one after the other in one cluster, and holds each against
// the bounds.
func several(t *testing.T, attacks []cluster.Attack) {
	endless(t, longestAttack+time.Duration(len(attacks))*10*time.Second)
	var costs []cost
	inBubble(t, func(a *agent) {
		for i, attack := range attacks {
			costs = append(costs, a.suffer(attack, i))
			t.Logf("%+v", costs[len(costs)-1])
		}
	})
	for _, c := range costs {
		t.Run(c.name, func(t *testing.T) { c.check(t) })
	}
}

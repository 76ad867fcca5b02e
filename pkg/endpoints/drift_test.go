package endpoints

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/state"
)

var (
	start = time.Date(2026, 11, 24, 0, 0, 0, 0, time.UTC)
	web   = hns.ACL{ID: "azure-acl-web", Action: hns.Allow, Direction: hns.In, Priority: 222, RuleType: hns.Switch}
	block = hns.ACL{ID: "azure-acl-block", Action: hns.Block, Direction: hns.In, Priority: 3000, RuleType: hns.Switch}
)

// TestRepairIsCountedOnce: an object that is found changed again and again before it is
// right is one that was found, and one that was repaired.
func TestRepairIsCountedOnce(t *testing.T) {
	l, object := newDriftLog(), drifting{endpoint: "ep"}
	l.foundRules("ep", []hns.ACL{web, block}, []hns.ACL{block, web}, start)
	require.Empty(t, l.objects, "the same rules in another order")

	l.foundRules("ep", []hns.ACL{web, block}, []hns.ACL{web}, start)
	l.foundRules("ep", []hns.ACL{web}, nil, start) // what is taken for there now is less
	require.Len(t, l.objects, 1)
	require.Equal(t, "2 rules missing", l.objects[object].found)
	l.wrote(object)
	require.True(t, l.asDesired(object))
	require.False(t, l.asDesired(object))
	require.Equal(t, map[string]uint64{driftSet: 0, driftACL: 1}, l.found)
	require.Equal(t, map[string]uint64{driftSet: 0, driftACL: 1}, l.repaired)
}

// TestPutBackIsNoRepair: what somebody else put back himself, nobody of us repaired.
func TestPutBackIsNoRepair(t *testing.T) {
	l, set := newDriftLog(), drifting{set: ipsets.Namespace("x")}
	l.wrote(set) // before it was found
	l.foundSet(ipsets.Drift{Name: set.set, Missing: 1}, start)
	require.False(t, l.asDesired(set))
	require.Equal(t, map[string]uint64{driftSet: 1, driftACL: 0}, l.found)
	require.Equal(t, map[string]uint64{driftSet: 0, driftACL: 0}, l.repaired)
}

// TestRepairs: a repair names the object and what had been changed, once, and an endpoint that
// is gone is forgotten.
func TestRepairs(t *testing.T) {
	d := newTestEndpoints()
	d.drift.foundRules("ep", []hns.ACL{web, block}, nil, start)
	d.drift.wrote(drifting{endpoint: "ep"})
	require.Equal(t, []state.Repair{{Kind: driftACL, Object: "ep", Found: "2 rules missing"}}, d.repairs())
	require.Empty(t, d.drift.objects)
	require.Empty(t, d.repairs())
}

// TestFlapping: who changes an object again and again makes its repair wait, longer each
// time, and who stops is forgotten.
func TestFlapping(t *testing.T) {
	l, set, now := newDriftLog(), drifting{set: ipsets.Namespace("x")}, start
	var pauses []time.Duration
	for range 4 {
		l.foundSet(ipsets.Drift{Name: set.set, Gone: true}, now)
		until := l.pausedUntil(set, now)
		if until.IsZero() {
			pauses = append(pauses, 0)
			require.Empty(t, l.flapping(now))
		} else {
			pauses = append(pauses, until.Sub(now))
			require.Equal(t, []drifting{set}, l.flapping(now))
			now = until
		}
		l.wrote(set)
		l.asDesired(set)
	}
	require.Zero(t, pauses[0])
	require.Zero(t, pauses[1])
	require.Positive(t, pauses[2])
	require.Greater(t, pauses[3], pauses[2])

	l.forget(now)
	require.NotEmpty(t, l.objects)
	l.forget(now.Add(24 * time.Hour))
	require.Empty(t, l.objects)
}

// TestForgetKeepsWhatIsOpen: an object that is not right yet is not forgotten, however
// long that takes.
func TestForgetKeepsWhatIsOpen(t *testing.T) {
	l := newDriftLog()
	l.foundRules("ep", []hns.ACL{web}, nil, start)
	l.forget(start.Add(24 * time.Hour))
	require.NotEmpty(t, l.objects)
}

func TestDriftText(t *testing.T) {
	for want, d := range map[string]ipsets.Drift{
		"gone":                       {Gone: true, Needed: true},
		"made by somebody else":      {Appeared: true, Added: 3},
		"of another type":            {Retyped: true, Missing: 2},
		"1 member missing":           {Missing: 1},
		"2 members missing":          {Missing: 2},
		"1 member added":             {Added: 1},
		"2 members missing, 1 added": {Missing: 2, Added: 1},
		"1 member missing, 12 added": {Missing: 1, Added: 12},
		"3 members missing, 3 added": {Missing: 3, Added: 3},
		"11 members added":           {Added: 11},
	} {
		require.Equal(t, want, setDriftText(d))
	}
	require.Equal(t, "3 rules missing, 1 unknown", driftText("rule", 3, 1, "unknown"))
}

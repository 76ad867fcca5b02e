package drift

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
	l, s := NewLog(), OfEndpoint("ep")
	l.FoundRules("ep", []hns.ACL{web, block}, []hns.ACL{block, web}, start)
	require.True(t, l.Empty(), "the same rules in another order")

	l.FoundRules("ep", []hns.ACL{web, block}, []hns.ACL{web}, start)
	l.FoundRules("ep", []hns.ACL{web}, nil, start) // what is taken for there now is less
	require.Equal(t, []Subject{s}, l.Objects())
	l.Wrote(s)
	l.Right(s, "shop/web")
	l.Right(s, "shop/web")
	require.Equal(t, []state.Repair{{Kind: ACL, Object: "ep", Pod: "shop/web", Found: "2 rules missing"}}, l.TakeRepairs())
	require.Empty(t, l.TakeRepairs())
	found, repaired := l.Counts()
	require.Equal(t, map[string]uint64{Set: 0, ACL: 1}, found)
	require.Equal(t, map[string]uint64{Set: 0, ACL: 1}, repaired)
}

// TestPutBackIsNoRepair: what somebody else put back himself, nobody of us repaired.
func TestPutBackIsNoRepair(t *testing.T) {
	l, set := NewLog(), ipsets.Namespace("x")
	l.Wrote(OfSet(set)) // before it was found
	l.FoundSet(ipsets.Drift{Name: set, Missing: 1}, start)
	l.Right(OfSet(set), "")
	require.Empty(t, l.TakeRepairs())
	found, repaired := l.Counts()
	require.Equal(t, map[string]uint64{Set: 1, ACL: 0}, found)
	require.Equal(t, map[string]uint64{Set: 0, ACL: 0}, repaired)
}

// TestFlapping: who changes an object again and again makes its repair wait, longer each
// time, and who stops is forgotten.
func TestFlapping(t *testing.T) {
	l, set := NewLog(), ipsets.Namespace("x")
	s, now := OfSet(set), start
	var pauses []time.Duration
	for range 4 {
		l.FoundSet(ipsets.Drift{Name: set, Gone: true}, now)
		until := l.PausedUntil(s, now)
		if until.IsZero() {
			pauses = append(pauses, 0)
			require.Empty(t, l.Flapping(now))
		} else {
			pauses = append(pauses, until.Sub(now))
			require.Equal(t, []Subject{s}, l.Flapping(now))
			now = until
		}
		l.Wrote(s)
		l.Right(s, "")
	}
	require.Zero(t, pauses[0])
	require.Zero(t, pauses[1])
	require.Positive(t, pauses[2])
	require.Greater(t, pauses[3], pauses[2])

	l.Forget(now)
	require.False(t, l.Empty())
	l.Forget(now.Add(24 * time.Hour))
	require.True(t, l.Empty())
}

// TestForgetKeepsWhatIsOpen: an object that is not right yet is not forgotten, however
// long that takes; one that is no more is, at once.
func TestForgetKeepsWhatIsOpen(t *testing.T) {
	l := NewLog()
	l.FoundRules("ep", []hns.ACL{web}, nil, start)
	l.Forget(start.Add(24 * time.Hour))
	require.False(t, l.Empty())
	l.Gone(OfEndpoint("ep"))
	require.True(t, l.Empty())
}

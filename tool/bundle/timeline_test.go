package bundle

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/recorder"
	"github.com/winnpm/winnpm/pkg/state"
)

func timeline(t *testing.T, rec Recording) string {
	t.Helper()
	var b strings.Builder
	require.NoError(t, rec.WriteText(&b))
	return b.String()
}

func TestTimeline(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	calls := []recorder.Call{
		{Op: "ACL/Add", Endpoint: "e1", Began: at.Add(time.Millisecond), Took: time.Millisecond, Count: 3, Error: &recorder.Error{Message: "refused"}},
		{Op: "Network/Get", Began: at.Add(2 * time.Millisecond), Took: 1234567, Count: 7},
		{Op: "ACL/Add", Endpoint: "e2", Began: at.Add(5004 * time.Millisecond), Took: 2 * time.Minute, Running: true, Count: 1},
	}
	rec := Recording{recorder.Header{Node: "n1", Agent: "v1", Taken: at, Forgotten: 2}, []recorder.Step{
		{
			Number: 3, Kind: recorder.Transaction, Began: at, Took: 10 * time.Millisecond, Calls: calls[:2],
			Events: []recorder.Event{{Kind: "pod", Operation: "set", Object: "x/a"}}, MoreEvents: 2, MoreCalls: 4,
			Report: &state.Report{Changes: []state.ObjectChange{{Kind: "pod", Operation: "create", Count: 3}, {Kind: "policy", Operation: "delete", Count: 2}}, Pending: 1},
		},
		{Number: 4, Kind: recorder.Observation, Began: at.Add(time.Second), Look: &dataplane.Look{Sets: true, Endpoints: []string{"e1"}}, Error: "no answer"},
		{Number: 5, Kind: recorder.Observation, Began: at.Add(2 * time.Second), Look: &dataplane.Look{Enumerate: true, Endpoints: []string{"e1"}}, MoreEndpoints: 1},
		{Number: 6, Kind: recorder.Transaction, Began: at.Add(3 * time.Second), Report: &state.Report{Repairs: []state.Repair{{Kind: "acl", Object: "e1", Found: "3 rules missing"}}}},
		{Number: 7, Kind: recorder.Transaction, Began: at.Add(4 * time.Second), Report: &state.Report{}},
		{Number: 8, Kind: recorder.Transaction, Began: at.Add(5 * time.Second), Running: true, Events: []recorder.Event{{}}, Calls: calls[2:]},
	}}
	require.Equal(t, `recorded on n1 by v1, taken 2026-01-02T03:04:05Z
forgotten before that: 2 steps
3  +0s  3 pods created, 2 policies deleted  ACL/Add 1, Network/Get 1, 4 earlier calls  10ms  1 failed, 1 pending pod
    call 5  ACL/Add e1 (3)  +1ms  1ms  FAILED: refused
4  +1s  reading HNS  no call  0s  ended by: no answer
5  +2s  reading HNS  no call  0s  ok
6  +3s  no event  no call  0s  ok
    repair  acl  e1  3 rules missing
7  +4s  no event  no call  0s  ok
8  +5s  1 object  ACL/Add 1  0s  running
    call 1  ACL/Add e2 (1)  +4ms  2m0s  no answer yet
6 steps, 1 failed call
`, timeline(t, rec))

	require.Contains(t, timeline(t, Recording{}), "recorded on an unnamed node by an unknown version")
}

// What a bundle says is neither a line of its own nor an order to the terminal.
func TestTimelineOfAHostileBundle(t *testing.T) {
	text := func(evil string) string {
		return timeline(t, Recording{recorder.Header{Node: evil, Agent: evil}, []recorder.Step{{
			Kind: evil, Error: evil, Look: &dataplane.Look{Endpoints: []string{evil}}, Events: []recorder.Event{{Kind: evil, Operation: evil, Object: evil}},
			Calls:  []recorder.Call{{Op: evil, Endpoint: evil, Error: &recorder.Error{Message: evil}}},
			Report: &state.Report{Changes: []state.ObjectChange{{Kind: evil, Operation: evil}}, Repairs: []state.Repair{{Kind: evil, Object: evil, Pod: evil, Found: evil}}},
		}, {Kind: recorder.Observation, Look: &dataplane.Look{Endpoints: []string{evil}}}}})
	}
	got := text("x\x1b[2J\nno differences\u202e")
	require.Equal(t, strings.Count(text("x"), "\n"), strings.Count(got, "\n"))
	require.NotContains(t, got, "\x1b")
	require.NotContains(t, got, "\u202e")
}

package controllers

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/klog/v2/textlogger"

	"github.com/winnpm/winnpm/pkg/state"
)

// A repair is a line of the log, with what was repaired and what had been done
// to it; a transaction without repairs says nothing of them.
func TestRepairsAreLogged(t *testing.T) {
	var log bytes.Buffer
	c := New(Config{Source: newCluster().source(), Logger: textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&log)))})
	w := worker{c: c, logged: time.Now(), converged: true}
	w.publish(state.Report{}, nil)
	require.Empty(t, log.String())
	w.publish(state.Report{Repairs: []state.Repair{
		{Kind: "acl", Object: "ep-1", Pod: "x/web", Found: "3 rules missing, 1 unknown"},
		{Kind: "set", Object: "ns-x", Found: "gone"},
	}}, nil)
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	require.Len(t, lines, 2)
	require.Contains(t, lines[0], `"repaired what somebody else changed in HNS" kind="acl" object="ep-1" pod="x/web" found="3 rules missing, 1 unknown"`)
	require.Contains(t, lines[1], `"repaired what somebody else changed in HNS" kind="set" object="ns-x" pod="" found="gone"`)
	require.Equal(t, byte('I'), lines[0][0])
}

// TestWarningsAreLogged: each warning is logged once when it becomes active and once
// when it is cleared. An apply that failed as a whole says nothing about warnings.
func TestWarningsAreLogged(t *testing.T) {
	var log bytes.Buffer
	c := New(Config{Source: newCluster().source(), Logger: textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&log)))})
	w := worker{c: c, logged: time.Now(), converged: true}
	one := state.Warning{Object: "x/web", Kind: "NetworkPolicy", Reason: state.ReasonHNSRejected, Message: "left out"}
	two := state.Warning{Object: "n1", Kind: "Node", Reason: state.ReasonHNSUnavailable, Message: "retried"}
	for _, step := range []struct {
		stands []state.Warning
		err    error
		want   []string
	}{
		{nil, nil, nil},
		{[]state.Warning{one}, nil, []string{`"warning raised" kind="NetworkPolicy" object="x/web" reason="HNSRejected" message="left out"`}},
		{[]state.Warning{one, two}, nil, []string{`"warning raised" kind="Node" object="n1" reason="HNSUnavailable" message="retried"`}},
		{nil, errors.New("broke off"), nil},
		{[]state.Warning{two}, nil, []string{`"warning cleared" kind="NetworkPolicy" object="x/web" reason="HNSRejected"`}},
		{[]state.Warning{two}, nil, nil},
	} {
		log.Reset()
		w.publish(state.Report{Warnings: step.stands}, step.err)
		lines := strings.Split(strings.TrimSuffix(log.String(), "\n"), "\n")
		if step.want == nil {
			require.Empty(t, log.String())
			continue
		}
		require.Len(t, lines, len(step.want))
		for i, want := range step.want {
			require.Contains(t, lines[i], want)
		}
	}
}

// TestAppliedIsLogged: a transaction that comes soon after a line has none, unless it is news.
func TestAppliedIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&log)))
		w := worker{c: New(Config{Source: newCluster().source(), Logger: logger, ApplyInterval: time.Second})}
		for i, step := range []struct {
			after  time.Duration
			report state.Report
			want   string // "" for no line
		}{
			{0, state.Report{Objects: 1}, `generation=1 objects=1 calls=null pending=0`},
			{time.Second - 1, state.Report{Objects: 2, Calls: map[string]int{"ACL/Add": 1}, Took: time.Second}, ""},
			{1, state.Report{Objects: 3, Calls: map[string]int{"ACL/Add": 2}, Took: time.Second},
				`generation=3 objects=3 calls={"ACL/Add":2} pending=0 warnings=0 errors=null took="1s"`},
			{1, state.Report{Pending: 1}, `generation=4 objects=0 calls=null pending=1`},
			{1, state.Report{Pending: 2}, ""},
			{1, state.Report{Errors: []string{"no"}, Pending: 2}, `generation=6 objects=0 calls=null pending=2 warnings=0 errors=["no"]`},
			{1, state.Report{}, `generation=7`},
			{1, state.Report{}, ""},
			{time.Second, state.Report{}, `generation=9`},
		} {
			log.Reset()
			time.Sleep(step.after)
			step.report.Generation = uint64(i + 1)
			w.publish(step.report, nil)
			if step.want == "" {
				require.Empty(t, log.String(), "step %d", i)
				continue
			}
			require.Contains(t, log.String(), step.want, "step %d", i)
		}
	})
}

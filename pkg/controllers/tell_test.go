package controllers

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/klog/v2/textlogger"

	"github.com/winnpm/winnpm/pkg/dataplane"
)

// A repair is a line of the log, with what was repaired and what had been done
// to it; a transaction without repairs says nothing of them.
func TestRepairsAreLogged(t *testing.T) {
	var log bytes.Buffer
	c := New(Config{Source: newCluster().source(), Logger: textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&log)))})
	w := worker{c: c}
	w.tell(dataplane.Report{}, nil)
	require.Empty(t, log.String())
	w.tell(dataplane.Report{Repairs: []dataplane.Repair{
		{Kind: "acl", Object: "ep-1", Pod: "x/web", Found: "3 rules missing, 1 unknown"},
		{Kind: "set", Object: "ns-x", Found: "gone"},
	}}, nil)
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	require.Len(t, lines, 2)
	require.Contains(t, lines[0], `"repaired what somebody else changed in HNS" kind="acl" object="ep-1" pod="x/web" found="3 rules missing, 1 unknown"`)
	require.Contains(t, lines[1], `"repaired what somebody else changed in HNS" kind="set" object="ns-x" pod="" found="gone"`)
	require.Equal(t, byte('I'), lines[0][0])
}

package debug

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/state"
)

func TestStatus(t *testing.T) {
	d := sample()
	warning := d.Warnings[0]
	began := d.Time.Add(-time.Hour)
	d.Reports = []state.Report{{Generation: 8}, {Generation: 9, Started: began, Warnings: d.Warnings}, {Generation: 10, Warnings: d.Warnings}}
	d.Sets[1].Missing = []string{"10.0.0.7"}
	h := Handler(Config{Dump: func() state.Dump { return d }, Healthy: fine, Ready: func() error { return errors.New("two\n  things wait") }, Version: "v1"})
	code, body := get(t, h, http.MethodGet, StatusPath)
	require.Equal(t, http.StatusOK, code)
	var got Status
	require.NoError(t, json.Unmarshal([]byte(body), &got))
	require.Equal(t, Status{
		Node: "n1", Version: "v1", Time: d.Time, Healthy: Health{OK: true}, Ready: Health{Reason: "two things wait"},
		Counts:   Counts{Pods: 2, LocalPods: 1, Endpoints: 1, Namespaces: 1, Policies: 2, Sets: 2, Programmed: 1, Pending: 1, Behind: 1, Warnings: 1},
		Pending:  []PendingEntry{{Pending: d.Pending[0]}},
		Behind:   []BehindEntry{{ID: "azure-npm-2", Name: "podlabel-a:b", Missing: 1}},
		Warnings: []WarningEntry{{Warning: warning, Since: began}},
	}, got)
}

// A status lists a bounded number of entries, and counts all.
func TestStatusIsBounded(t *testing.T) {
	d := state.Dump{
		Sets:     slices.Repeat([]state.SetDump{{Unknown: true}}, 3000),
		Pending:  slices.Repeat([]state.Pending{{Pod: "x/a"}}, 3000),
		Warnings: slices.Repeat([]state.Warning{{Kind: "Pod"}}, 3000),
	}
	st := StatusOf(d, "v1", fine, fine)
	require.Equal(t, []int{3000, 3000, 3000}, []int{st.Counts.Behind, st.Counts.Pending, st.Counts.Warnings})
	require.Equal(t, []int{maxAttention, maxAttention, maxAttention}, []int{len(st.Behind), len(st.Pending), len(st.Warnings)})
}

package doctor_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/doctor"
	"github.com/winnpm/winnpm/pkg/hns/hnssim"
	"github.com/winnpm/winnpm/test/effort"
	"github.com/winnpm/winnpm/test/windows/hnsd"
)

// mostScale is as much as npm doctor asks for.
const mostScale = 65536

// upTo are the options of a doctor that asks for so much.
func upTo(n int) doctor.Options {
	o := options()
	o.Scale = n
	return o
}

// TestScale: what an HNS without limits takes holds, if as much was asked for as matters, and
// nothing of it stays, neither in HNS nor as megabytes in the zip.
func TestScale(t *testing.T) {
	t.Parallel()
	s := newStandIn(t)
	r := doctor.Run(t.Context(), s, upTo(effort.Of(1024, 8192, mostScale)))
	require.Empty(t, findings(r))
	verdicts := map[string]doctor.Verdict{}
	for _, a := range r.Answers {
		verdicts[a.ID] = a.Verdict
	}
	for _, id := range []string{"S16", "A23", "E10", "E11"} {
		require.Equal(t, doctor.Held, verdicts[id], "%s: %s", id, whyOf(r, id))
	}
	require.Contains(t, whyOf(r, "A23"), fmt.Sprintf("%d are taken", effort.Of(1024, 8192, 8192)))
	require.Empty(t, r.Left)
	untouched(t, s)
	for _, record := range r.Records {
		if strings.HasPrefix(record.Probe, "scale") {
			require.Less(t, len(record.Output)+len(strings.Join(record.Request, "")), 10_000)
		}
	}
	var file bytes.Buffer
	require.NoError(t, r.WriteZip(&file))
}

// TestScaleLimits: a limit that matters is refuted with its code, and one that does not holds.
func TestScaleLimits(t *testing.T) {
	t.Parallel()
	for name, tt := range effort.Some(t, effort.Of(2, 4, 100), map[string]struct {
		scale   int
		refuses hnssim.Refusal
		want    []string
		why     string
	}{
		"sets":         {512, hnssim.Refusal{What: hnssim.SetCount, N: 200}, []string{"S16"}, "128 were taken in"},
		"members":      {512, hnssim.Refusal{What: hnssim.SetValues, N: 300}, []string{"S16"}, "256 were taken in"},
		"nested":       {2048, hnssim.Refusal{What: hnssim.NestedMembers, N: 1500}, nil, "1024 were taken in"},
		"rules":        {512, hnssim.Refusal{What: hnssim.ACLCount, N: 300}, []string{"A23"}, "256 were taken in"},
		"bytes":        {512, hnssim.Refusal{What: hnssim.RequestBytes, N: 300_000}, []string{"A23"}, "and 512 refused"},
		"unknown code": {256, hnssim.Refusal{What: hnssim.SetCount, N: 200, Code: 0x803b0099}, []string{"C1", "S16"}, "and 256 refused: 0x803b0099"},
	}) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := standIn{hnsd.New(hnsd.Options{Personality: hnssim.Personality{Refuses: []hnssim.Refusal{tt.refuses}}})}
			r := doctor.Run(t.Context(), s, upTo(tt.scale))
			require.ElementsMatch(t, tt.want, refuted(r), "%+v", findings(r))
			require.Contains(t, whyOf(r, "S16")+whyOf(r, "A23"), tt.why)
			require.Empty(t, r.Left)
			networks, endpoints, namespaces := s.Exists()
			require.Equal(t, []int{1, 0, 0}, []int{len(networks), endpoints, namespaces})
		})
	}
}

// TestScaleSlow: nothing more is asked for when a call takes a minute, and calls that are too
// slow for an agent are refuted.
func TestScaleSlow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStandIn(t)
		var largest atomic.Int64
		r := doctor.Run(t.Context(), deviant{s, func(export string, a doctor.Arguments, do next) (doctor.Outcome, error) {
			if size := len(strings.Join(a.Texts, "")); size > 10_000 && strings.Contains(a.Texts[0], "azure-npm-0000") && export == "HcnModifyNetwork" {
				largest.Store(max(largest.Load(), int64(size)))
				wait(t.Context(), 3*time.Minute)
			}
			return do()
		}}, upTo(effort.Of(1024, 2048, 2048)))
		require.Equal(t, []string{"E10"}, refuted(r), "%+v", findings(r))
		require.Less(t, largest.Load(), int64(50_000), "it goes no further")
		untouched(t, s)
	})
}

// wait lets time go by.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// TestScaleCut: what is taken and not shown is refuted.
func TestScaleCut(t *testing.T) {
	t.Parallel()
	s := newStandIn(t)
	r := doctor.Run(t.Context(), deviant{s, shows("Endpoint", `\{"Type":"ACL","Settings":\{[^}]*azure-acl-doctor\.web100"[^}]*\}\},`, ``)}, upTo(256))
	require.Equal(t, []string{"A23"}, refuted(r), "%+v", findings(r))
	require.Contains(t, whyOf(r, "A23"), "128 were taken, and 127 are shown")
}

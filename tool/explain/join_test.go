package explain_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/cluster"
	"github.com/winnpm/winnpm/tool/explain"
)

// dumpOf is what a node of the two says; "" says what one that has all pods
// would.
func dumpOf(t testing.TB, node string) state.Dump {
	t.Helper()
	d, _, err := cluster.Snapshot(t.Context(), cluster.Options{Manifests: []string{"testdata/cluster.yaml", "testdata/far.yaml"}, Node: node})
	require.NoError(t, err)
	d.Time = taken
	return d
}

func answer(t testing.TB, d state.Dump, q explain.Question) explain.Answer {
	t.Helper()
	a, err := explain.Explain(d, q, nil)
	require.NoError(t, err)
	return a
}

// Two nodes say together what one would say that has all pods, except for what
// would allow it: each knows that of its half.
func TestJoinIsTheWhole(t *testing.T) {
	n1, n2, all := dumpOf(t, "n1"), dumpOf(t, "n2"), dumpOf(t, "")
	verdicts := map[explain.Verdict]int{}
	for _, far := range []string{"x/far", "x/host"} {
		for _, near := range []string{"x/web", "z/db", "z/cache-0"} {
			for _, port := range []uint16{1, 5432} {
				out := explain.Question{From: far, To: near, Port: port, Protocol: "TCP"}
				in := explain.Question{From: near, To: far, Port: port, Protocol: "TCP"}
				for q, joined := range map[explain.Question]explain.Answer{
					out: explain.Join(answer(t, n2, out), answer(t, n1, out)),
					in:  explain.Join(answer(t, n1, in), answer(t, n2, in)),
				} {
					whole := answer(t, all, q)
					require.Equal(t, whole.Verdict, joined.Verdict, q)
					for _, side := range [][2]explain.Side{{whole.Egress, joined.Egress}, {whole.Ingress, joined.Ingress}} {
						require.Equal(t, side[0].Actual, side[1].Actual, q)
						require.Equal(t, side[0].Isolating, side[1].Isolating, q)
						require.Equal(t, side[0].Misses, side[1].Misses, q)
					}
					require.Equal(t, whole.Source+" "+whole.Destination, joined.Source+" "+joined.Destination)
					verdicts[joined.Verdict]++
				}
			}
		}
	}
	require.Positive(t, verdicts[explain.Allowed])
	require.Positive(t, verdicts[explain.Blocked])
	require.Zero(t, verdicts[explain.Unknown])
}

func TestJoin(t *testing.T) {
	allowed := explain.Question{From: "x/far", To: "z/db", Port: 5432, Protocol: "TCP"}
	blocked := explain.Question{From: "x/far", To: "z/db", Port: 1, Protocol: "TCP"} // by z/db alone
	const why = "the agent on n2 does not answer"
	for _, tc := range []struct {
		name    string
		q       explain.Question
		change  func(n1, n2 *state.Dump)
		egress  func(explain.Question) explain.Answer // nil: n2's
		verdict explain.Verdict
	}{
		{"both-allow", allowed, nil, nil, explain.Allowed},
		{"one-blocks", blocked, nil, nil, explain.Blocked},
		{"late-on-one", allowed, func(_, n2 *state.Dump) {
			n2.Time = taken.Add(time.Minute)
			ep := endpoint(t, n2, "x/far")
			ep.Applied, ep.Since = ep.Applied[:0], taken.Add(-ago)
		}, nil, explain.Allowed},
		{"no-answer", allowed, nil, func(q explain.Question) explain.Answer { return explain.Unanswered(q, "n2", why) }, explain.Unknown},
		{"no-answer-blocked", blocked, nil, func(q explain.Question) explain.Answer { return explain.Unanswered(q, "n2", why) }, explain.Blocked},
		{"no-agent", allowed, nil, func(q explain.Question) explain.Answer { return explain.Unjudged(q, "n2", "no agent on node n2") }, explain.Unknown},
		{"two-addresses", blocked, func(_, n2 *state.Dump) {
			for i := range n2.Pods {
				if n2.Pods[i].Pod == "z/db" {
					n2.Pods[i].Addr = "10.0.0.77"
				}
			}
		}, nil, explain.Unknown},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n1, n2 := dumpOf(t, "n1"), dumpOf(t, "n2")
			if tc.change != nil {
				tc.change(&n1, &n2)
			}
			var egress explain.Answer
			if tc.egress == nil {
				egress = answer(t, n2, tc.q)
			} else {
				egress = tc.egress(tc.q)
			}
			a := explain.Join(egress, answer(t, n1, tc.q))
			require.Equal(t, tc.verdict, a.Verdict)
			require.Empty(t, a.Node)
			require.Equal(t, taken, a.Time)
			require.Equal(t, []string{"n2", "n1"}, []string{a.Egress.Node, a.Ingress.Node})
			var b strings.Builder
			require.NoError(t, a.WriteText(&b))
			golden(t, "join-"+tc.name+".txt", b.String())
			text, err := json.Marshal(a)
			require.NoError(t, err)
			require.NotContains(t, string(text), "null", "a list without entries is []")
		})
	}
	nothing := explain.Join(explain.Unjudged(allowed, "n2", why), explain.Unjudged(allowed, "n1", why))
	require.Equal(t, explain.Unknown, nothing.Verdict)
	require.Equal(t, "x/far z/db 5432", fmt.Sprint(nothing.From, " ", nothing.To, " ", nothing.Port))
}

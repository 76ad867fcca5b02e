package versioned_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/versioned"
	"github.com/winnpm/winnpm/test/hnsfault"
)

// TestRefusalIsAnObservation: HNS answers a write with an error, whatever its code. A
// read tells whether it was done.
func TestRefusalIsAnObservation(t *testing.T) {
	for op, write := range writes {
		for _, code := range []uint32{0x803B000D, 0x80004005, 0x803B7777} {
			for mode, done := range map[hnsfault.Mode]bool{hnsfault.Refuse: false, hnsfault.LoseReply: true} {
				t.Run(fmt.Sprintf("%s %08x %t", op, code, done), func(t *testing.T) {
					sim, from := start(t)
					sim.Inject(hnsfault.Fault{Op: op, Mode: mode, Code: code})
					_, err := write(versioned.Writer{Ask: hns.Asking(t.Context(), sim)}, from)
					require.Equal(t, map[string]int{hns.OpEndpointGet: 2, op: 1}, sim.Counts())
					if !done {
						var refused *versioned.Refused
						require.ErrorAs(t, err, &refused)
						require.Equal(t, code, hns.CodeOf(err))
						return
					}
					var conflict *versioned.Conflict
					require.ErrorAs(t, err, &conflict)
					require.True(t, conflict.Written)
					require.Equal(t, code, hns.CodeOf(conflict.Cause))
					ours, _ := conflict.Endpoint.Split()
					require.Len(t, ours, 1)
				})
			}
		}
	}
}

// shower is an HNS that shows the priority of our rule otherwise, by the number of
// the read; 0: as it is.
type shower struct {
	*hnsfault.Sim
	priorities []int
	reads      int
}

func (s *shower) GetEndpoint(ctx context.Context, id string) (hns.Endpoint, error) {
	e, err := s.Sim.GetEndpoint(ctx, id)
	s.reads++
	if at := s.reads - 1; at < len(s.priorities) && s.priorities[at] != 0 {
		for i, p := range e.Policies {
			e.Policies[i].Settings = bytes.ReplaceAll(p.Settings, fmt.Append(nil, rule.Priority), fmt.Append(nil, s.priorities[at]))
		}
	}
	return e, err
}

// TestTwoReadsTell: what a read after a write shows otherwise means something only
// when a second one agrees. Then it is learned, or a conflict.
func TestTwoReadsTell(t *testing.T) {
	for name, tc := range map[string]struct {
		shown   []int // before the write, and after it
		learns  bool
		reads   int
		learned int // how often Learn is asked
		fails   bool
	}{
		"once only":          {shown: []int{0, 7}, reads: 3},
		"twice, a spelling":  {shown: []int{0, 7, 7}, learns: true, reads: 3, learned: 1},
		"twice, no spelling": {shown: []int{0, 7, 7}, reads: 3, learned: 1, fails: true},
		"never the same":     {shown: []int{0, 7, 8}, learns: true, reads: 3, fails: true},
	} {
		for op, write := range writes {
			t.Run(name+" "+op, func(t *testing.T) {
				sim, from := start(t)
				client := &shower{Sim: sim, priorities: tc.shown}
				asked, spelt := 0, false
				w := versioned.Writer{
					Ask: hns.Asking(t.Context(), client),
					Learn: func(was, shown hns.Endpoint, wrote []hns.ACL) bool {
						asked++
						spelt = tc.learns
						require.Empty(t, was.Policies)
						require.Len(t, shown.Policies, 1)
						require.Equal(t, []hns.ACL{rule}, wrote)
						return tc.learns
					},
					Ours: func(a hns.ACL) (hns.ACL, bool) {
						if spelt {
							a.Priority = rule.Priority
						}
						return a, a.Ours()
					},
				}
				done, err := write(w, from)
				require.Equal(t, tc.reads, client.reads)
				require.Equal(t, tc.learned, asked)
				if tc.fails {
					require.ErrorIs(t, err, hns.ErrConflict)
					return
				}
				require.NoError(t, err)
				require.NotEmpty(t, done.Version)
			})
		}
	}
}

// TestOthersGoBackCut: HNS rejects the fields that it shows of others' rules itself.
// An Update goes once more without them, and says which way was taken.
func TestOthersGoBackCut(t *testing.T) {
	const theirs = `{"Action":"Block","Direction":"Out","Priority":200,"RuleType":"Switch","Scope":0}`
	for name, tc := range map[string]struct {
		minds   bool // HNS rejects the field
		cut     bool // what worked before
		updates int
		isCut   bool
	}{
		"taken as it is":          {updates: 1},
		"refused":                 {minds: true, updates: 2, isCut: true},
		"cut at once":             {minds: true, cut: true, updates: 1, isCut: true},
		"cut, though it need not": {cut: true, updates: 1, isCut: true},
	} {
		t.Run(name, func(t *testing.T) {
			sim, _ := start(t)
			if tc.minds {
				sim.SetPersonality(hnsfault.Personality{Refuse: hnsfault.OnlyDocumented})
			}
			require.NoError(t, sim.SetPolicies("ep", []hns.EndpointPolicy{{Type: hns.PolicyTypeACL, Settings: []byte(theirs)}}))
			e, err := sim.GetEndpoint(t.Context(), "ep")
			require.NoError(t, err)
			sim.ResetCalls()
			done, err := versioned.Writer{Ask: hns.Asking(t.Context(), sim), Cut: tc.cut}.Replace("ep", e.Basis(), []hns.ACL{rule})
			require.NoError(t, err)
			require.Equal(t, tc.updates, sim.Counts()[hns.OpACLUpdate])
			require.Equal(t, tc.isCut != tc.cut, done.OtherForm)
			require.Len(t, done.After.Foreign, 1, "theirs stays")
			require.Equal(t, !tc.isCut, strings.Contains(string(done.After.Foreign[0].Settings), "Scope"))
		})
	}
}

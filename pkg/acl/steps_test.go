package acl

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/winnpm/winnpm/pkg/hns"
)

// numberedACLs returns ACLs that differ in their port, from first to last.
func numberedACLs(first, last int) (out []hns.ACL) {
	for i := first; i <= last; i++ {
		out = append(out, hns.ACL{ID: "a", Action: hns.Allow, Direction: hns.In, RuleType: hns.Switch, Priority: hns.PriorityAllow, Protocols: "6", LocalPorts: fmt.Sprint(i)})
	}
	return out
}

// short renders steps: one line each, ACLs by their port, blocks by their Id.
func short(steps []Step) string {
	var b strings.Builder
	for _, s := range steps {
		b.WriteString(string(s.Verb))
		for _, a := range s.ACLs {
			fmt.Fprintf(&b, " %s", cmp.Or(a.LocalPorts, a.ID))
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestPlanSteps(t *testing.T) {
	block := []hns.ACL{{ID: "block", Action: hns.Block, Direction: hns.In, RuleType: hns.Switch, Priority: hns.PriorityBlock}}
	want := append(numberedACLs(1, 3), block...)
	stale := numberedACLs(9, 9)
	for _, tc := range []struct {
		name    string
		Change  Change
		Desired string
	}{
		{"nothing is wanted and there", Change{}, ""},
		{"everything is there", Change{Actual: want, Desired: want}, ""},
		{"in another order", Change{Actual: []hns.ACL{want[3], want[1], want[0], want[2]}, Desired: want}, ""},
		{"what is only added is one Add: rules and block together", Change{Desired: want, Batch: 4}, "Add 1 2 3 block\n"},
		{"only what is missing is added", Change{Actual: want[:2], Desired: want, Batch: 2}, "Add 3 block\n"},
		{"what does not fit is one Update", Change{Desired: want, Batch: 3}, "Update 1 2 3 block\n"},
		{"an open endpoint is closed before it", Change{Desired: want, Shield: block, Batch: 3}, "Add block\nUpdate 1 2 3 block\n"},
		{"but once only", Change{Actual: block, Desired: want, Shield: block, Batch: 2}, "Update 1 2 3 block\n"},
		{"and not for what fits", Change{Desired: want, Shield: block, Batch: 4}, "Add 1 2 3 block\n"},
		{"something has to go: one Update, whatever its size", Change{Actual: slices.Concat(want[:3], stale), Desired: want, Shield: block, Batch: 9}, "Update 1 2 3 block\n"},
		{"a rule that is there twice has to go", Change{Actual: slices.Concat(want, want[:1]), Desired: want, Batch: 9}, "Update 1 2 3 block\n"},
		{"the last policy goes", Change{Actual: want}, "Update\n"},
		{"an unused number may stay", Change{Actual: slices.Concat(want, stale), Desired: want, Unused: stale}, ""},
		{"and does not stand in the way of an Add", Change{Actual: slices.Concat(want[:3], stale), Desired: want, Unused: stale, Batch: 9}, "Add block\n"},
		{"but goes with an Update", Change{Actual: slices.Concat(numberedACLs(8, 9), want), Desired: want, Unused: stale, Batch: 9}, "Update 1 2 3 block\n"},
		{"an Add might be a second copy", Change{Actual: want[:3], Desired: want, Batch: 9, Whole: true}, "Update 1 2 3 block\n"},
		{"but nothing has to be written", Change{Actual: want, Desired: want, Whole: true}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, tc.Desired, short(Plan(tc.Change)))
		})
	}
}

// TestPlanStepsProperties: done in order, the steps give the wanted list, but for unused rules that
// stay. No Add repeats anything. What is not a shield comes with the last request, whole.
func TestPlanStepsProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string, of []hns.ACL) (out []hns.ACL) {
			for _, a := range of {
				if rapid.IntRange(0, 2).Draw(t, name) == 0 {
					out = append(out, a)
				}
			}
			return out
		}
		c := Change{
			Desired: draw("desired", numberedACLs(1, 8)), Unused: draw("unused", numberedACLs(9, 10)),
			Batch: rapid.IntRange(1, 9).Draw(t, "batch"), Whole: rapid.Bool().Draw(t, "whole"),
		}
		c.Actual = rapid.Permutation(append(draw("actual", numberedACLs(1, 10)), draw("again", numberedACLs(1, 10))...)).Draw(t, "order")
		c.Shield = draw("shield", c.Desired)
		before := fmt.Sprintf("%+v", c)
		steps := Plan(c)
		require.Equal(t, before, fmt.Sprintf("%+v", c), "the change is not written to")

		have := slices.Clone(c.Actual)
		for i, s := range steps {
			last := i == len(steps)-1
			if s.Verb == hns.Update {
				require.True(t, last)
				have = s.ACLs
				continue
			}
			require.NotEmpty(t, s.ACLs)
			for _, a := range s.ACLs {
				require.True(t, last || slices.Contains(c.Shield, a), "%s comes before the rest", RuleText(a))
				require.NotContains(t, Canonical(have), a.Canonical(), "%s is there", RuleText(a))
				have = append(have, a)
			}
		}
		added, removed := Diff(have, c.Desired)
		require.Empty(t, added)
		_, essential := Diff(removed, c.Unused)
		require.Empty(t, essential)
	})
}

func TestDiffACLs(t *testing.T) {
	a, b := hns.ACL{ID: "a"}, hns.ACL{ID: "b"}
	spelled := hns.ACL{ID: "a", Protocols: hns.AnyProtocol}
	added, removed := Diff([]hns.ACL{spelled, b, b}, []hns.ACL{a, a, b})
	require.Equal(t, []hns.ACL{a}, added, "one a is there, under another spelling")
	require.Equal(t, []hns.ACL{b}, removed, "one b is too many")
}

// TestMissingDefaults: what counts as somebody else's allow-all.
func TestMissingDefaults(t *testing.T) {
	both := []string{IDAllowIn, IDAllowOut}
	acl := func(text string) hns.EndpointPolicy {
		return hns.EndpointPolicy{Type: hns.PolicyTypeACL, Settings: []byte(text)}
	}
	for _, tc := range []struct {
		name    string
		foreign []hns.EndpointPolicy
		Desired []string
	}{
		{"nothing", nil, both},
		{"allow in", []hns.EndpointPolicy{acl(`{"Action":"Allow","Direction":"In","RuleType":"Switch","Priority":65500}`)}, []string{IDAllowOut}},
		{"allow out, any protocol spelled out", []hns.EndpointPolicy{acl(`{"Action":"Allow","Direction":"Out","RuleType":"Switch","Protocols":"256"}`)}, []string{IDAllowIn}},
		{"block", []hns.EndpointPolicy{acl(`{"Action":"Block","Direction":"In","RuleType":"Switch"}`)}, both},
		{"host", []hns.EndpointPolicy{acl(`{"Action":"Allow","Direction":"In","RuleType":"Host"}`)}, both},
		{"one protocol", []hns.EndpointPolicy{acl(`{"Action":"Allow","Direction":"In","RuleType":"Switch","Protocols":"6"}`)}, both},
		{"one peer", []hns.EndpointPolicy{acl(`{"Action":"Allow","Direction":"In","RuleType":"Switch","RemoteAddresses":"10.0.0.1"}`)}, both},
		{"one port", []hns.EndpointPolicy{acl(`{"Action":"Allow","Direction":"In","RuleType":"Switch","Protocols":"","LocalPorts":"80"}`)}, both},
		{"no ACL", []hns.EndpointPolicy{{Type: "OutBoundNAT", Settings: []byte(`{}`)}, acl(`not JSON`)}, both},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			for _, a := range MissingDefaults(hns.Endpoint{Policies: tc.foreign}.Parts(nil).Defaults, nil) {
				require.Equal(t, hns.PriorityDefault, a.Priority)
				got = append(got, a.ID)
			}
			require.Equal(t, tc.Desired, got)
		})
	}
}

package hnsfault

import (
	"net/netip"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// TestDrawPersonality: one seed is one personality, and over many seeds everything
// is odd somewhere and usual elsewhere.
func TestDrawPersonality(t *testing.T) {
	const seeds = 400
	codes, traitsSeen := map[Answer]int{}, map[Trait]int{}
	fields := map[string]int{}
	var count func(prefix string, v reflect.Value)
	count = func(prefix string, v reflect.Value) {
		for i := range v.NumField() {
			name := prefix + v.Type().Field(i).Name
			switch f := v.Field(i); {
			case f.Type() == reflect.TypeFor[Spelling]() || f.Type() == reflect.TypeFor[EndpointHabits]():
				count(name+".", f)
			case f.IsZero():
				fields[name] += 0
			default:
				fields[name]++
			}
		}
	}
	classes := map[hns.CodeClass]bool{}
	for seed := range uint64(seeds) {
		p := DrawPersonality(seed)
		require.Empty(t, cmp.Diff(p, DrawPersonality(seed)))
		count("", reflect.ValueOf(p))
		for a, code := range p.Codes {
			codes[a]++
			classes[hns.LookupCode(code).Class] = true
			require.Less(t, a, answers)
		}
		for _, f := range p.Refuses {
			traitsSeen[f.What]++
		}
		s := New(Options{Foreign: hnssim.DefaultForeign(), Personality: p})
		require.NoError(t, s.CreateEndpoint(hnssim.NewEndpoint{ID: "ep-1", Addrs: []netip.Addr{netip.MustParseAddr("10.0.0.4")}}), "its defaults are policies")
		if p.Foreign != nil {
			v, _ := s.Endpoint("ep-1")
			require.Empty(t, cmp.Diff(p.Foreign, v.Policies))
		}
	}
	for name, n := range fields {
		require.Positive(t, n, "%s is never odd", name)
		if name != "Seed" && name != "Codes" && name != "Refuses" { // some of these are odd nearly always
			require.Less(t, n, seeds*3/4, name)
		}
	}
	require.Len(t, codes, int(answers))
	require.Len(t, traitsSeen, int(traits))
	require.True(t, classes[hns.Unlisted] && classes[hns.RefusesContent])
}

// TestPersonalityIsACopy: nobody changes a node from outside.
func TestPersonalityIsACopy(t *testing.T) {
	p := Personality{
		Codes: map[Answer]uint32{SetMissing: oddCode}, Refuses: []Refusal{{What: Braces, Code: oddCode}},
		Foreign: []hns.EndpointPolicy{},
	}
	s := New(Options{Foreign: hnssim.DefaultForeign(), Personality: p})
	delete(p.Codes, SetMissing)
	p.Refuses[0].What = SCTP
	require.ErrorIs(t, modify(hns.Remove, leaf("gone"))(t, s), hns.ErrUnlisted)
	require.ErrorIs(t, modify(hns.Add, leaf("{}"))(t, s), hns.ErrUnlisted)
	require.NoError(t, s.CreateEndpoint(hnssim.NewEndpoint{ID: "bare"}))
	v, _ := s.Endpoint("bare")
	require.Empty(t, v.Policies, "no policies at all is a choice too")
}

package oracletest

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// The endpoint of every case is 10.0.0.1, and 10.0.0.2 too.
var (
	factAddrs = []netip.Addr{netip.MustParseAddr("fd00::1"), netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")}
	factSets  = []hns.SetPolicy{
		{ID: "empty", Name: "empty", Type: hns.IPSet},
		{ID: "team", Name: "team", Type: hns.IPSet, Values: []string{"10.0.1.2", "10.0.2.0/24"}},
		{ID: "web", Name: "web", Type: hns.IPSet, Values: []string{"10.0.1.2", "10.0.1.3"}},
		{ID: "own", Name: "own", Type: hns.IPSet, Values: []string{"10.0.0.1"}},
		{ID: "nested", Name: "nested", Type: hns.NestedIPSet, Values: []string{"team", "empty"}},
		{ID: "hollow", Name: "hollow", Type: hns.NestedIPSet, Values: []string{"empty"}},
		{ID: "none", Name: "none", Type: hns.NestedIPSet},
	}
)

// settings writes an ACL of priority 222, unless more says another one.
func settings(direction, action, more string) string {
	text := fmt.Sprintf(`"Id":"%s","Action":"%s","Direction":"%s"`, strings.ToLower(action), action, direction)
	if !strings.Contains(more, "Priority") {
		text += `,"Priority":222`
	}
	if more != "" {
		text += "," + more
	}
	return "{" + text + "}"
}

func in(more string) string  { return settings("In", "Allow", more) }
func out(more string) string { return settings("Out", "Allow", more) }

// TestFacts has a line for each fact about packets and rules that the simulator, the
// explanations and the oracle tests rely on.
func TestFacts(t *testing.T) {
	const (
		from    = "In 10.0.1.2 10.0.0.1 6 80"
		to      = "Out 10.0.0.1 10.0.1.2 6 80"
		block   = `{"Id":"last","Action":"Block","Direction":"In","Priority":3000,"Protocols":"256","Scope":0,"Type":"ACL","RuleType":"Switch"}`
		allowed = "allowed"
		denied  = "denied"
	)
	for name, test := range map[string]struct {
		acls []string
		want map[string]string
	}{
		"no rule": {nil, map[string]string{from: allowed, to: allowed}},
		"any rule denies the rest in both directions": {[]string{in(`"RemoteAddresses":"10.9.9.9"`)}, map[string]string{from: denied, to: denied}},
		"a Host rule is of another layer":             {[]string{settings("In", "Block", `"RuleType":"Host","Priority":0`)}, map[string]string{from: allowed}},
		"a rule is for its direction":                 {[]string{in("")}, map[string]string{from: "allowed by allow", to: denied}},
		"the lower priority wins": {[]string{block, in(""), settings("In", "Block", `"Priority":200,"RemoteAddresses":"10.0.1.3"`)},
			map[string]string{from: "allowed by allow", "In 10.0.1.3 10.0.0.1 6 80": "denied by block"}},
		"all of the best decide":                    {[]string{in(""), block, in(`"Protocols":"6"`)}, map[string]string{from: "allowed by allow allow"}},
		"one priority, both actions":                {[]string{in(""), settings("In", "Block", "")}, map[string]string{from: "unknown"}},
		"one priority, both actions, other packets": {[]string{in(`"Protocols":"17"`), settings("In", "Block", `"Protocols":"6"`)}, map[string]string{from: "denied by block"}},
		"one priority, both actions, not the best":  {[]string{in(""), settings("In", "Block", ""), in(`"Priority":3`)}, map[string]string{from: "allowed by allow"}},

		"any protocol is empty or 256": {[]string{in(`"Protocols":"256","RemoteAddresses":"10.0.1.2"`), in(`"Protocols":"","RemoteAddresses":"10.0.1.3"`)},
			map[string]string{from: "allowed by allow", "In 10.0.1.3 10.0.0.1 1 0": "allowed by allow"}},
		"a protocol": {[]string{in(`"Protocols":"17"`)}, map[string]string{from: denied, "In 10.0.1.2 10.0.0.1 17 80": "allowed by allow"}},
		"In: the destination's port is local": {[]string{in(`"Protocols":"6","LocalPorts":"7,80-82"`)}, map[string]string{
			from: "allowed by allow", "In 10.0.1.2 10.0.0.1 6 7": "allowed by allow", "In 10.0.1.2 10.0.0.1 6 82": "allowed by allow",
			"In 10.0.1.2 10.0.0.1 6 83": denied, "In 10.0.1.2 10.0.0.1 6 79": denied}},
		"Out: the destination's port is remote": {[]string{out(`"Protocols":"6","RemotePorts":"80"`)}, map[string]string{to: "allowed by allow", "Out 10.0.0.1 10.0.1.2 6 81": denied}},
		"In: a port of the source":              {[]string{in(`"Protocols":"6","RemotePorts":"80"`)}, map[string]string{from: "unknown", to: denied}},
		"Out: a port of the source":             {[]string{out(`"Protocols":"6","LocalPorts":"80"`)}, map[string]string{to: "unknown", from: denied}},

		"In: a remote literal is the peer": {[]string{in(`"RemoteAddresses":"10.9.9.9,10.0.1.0/30"`)},
			map[string]string{from: "allowed by allow", "In 10.0.1.4 10.0.0.1 6 80": denied}},
		"In: a local literal is the own side":   {[]string{in(`"LocalAddresses":"10.0.0.1"`)}, map[string]string{from: "allowed by allow", "In 10.0.1.2 10.0.0.2 6 80": denied}},
		"Out: a remote literal is the peer":     {[]string{out(`"RemoteAddresses":"10.0.1.2/32"`)}, map[string]string{to: "allowed by allow", "Out 10.0.0.1 10.0.1.3 6 80": denied}},
		"Out: a local literal is the own side":  {[]string{out(`"LocalAddresses":"10.0.0.1"`)}, map[string]string{to: "allowed by allow", "Out 10.0.0.2 10.0.1.2 6 80": denied}},
		"In: a local set is the source":         {[]string{in(`"LocalAddresses":"team"`)}, map[string]string{from: "allowed by allow", "In 10.0.2.9 10.0.0.1 6 80": "allowed by allow", "In 10.0.1.3 10.0.0.1 6 80": denied}},
		"In: a remote set is the destination":   {[]string{in(`"RemoteAddresses":"own"`)}, map[string]string{from: "allowed by allow", "In 10.0.1.2 10.0.0.2 6 80": denied}},
		"In: a remote set is not the peer":      {[]string{in(`"RemoteAddresses":"team"`)}, map[string]string{from: denied}},
		"Out: a local set is the source":        {[]string{out(`"LocalAddresses":"own"`)}, map[string]string{to: "allowed by allow", "Out 10.0.0.2 10.0.1.2 6 80": denied}},
		"Out: a remote set is the destination":  {[]string{out(`"RemoteAddresses":"team"`)}, map[string]string{to: "allowed by allow", "Out 10.0.0.1 10.0.1.3 6 80": denied}},
		"sets are ANDed":                        {[]string{in(`"LocalAddresses":"team,web"`)}, map[string]string{from: "allowed by allow", "In 10.0.1.3 10.0.0.1 6 80": denied, "In 10.0.2.9 10.0.0.1 6 80": denied}},
		"a nested set is any of its members":    {[]string{in(`"LocalAddresses":"nested"`)}, map[string]string{from: "allowed by allow", "In 10.0.1.3 10.0.0.1 6 80": denied}},
		"a set without values is nobody":        {[]string{in(`"LocalAddresses":"empty"`)}, map[string]string{from: denied}},
		"a nested set of an empty one, nobody":  {[]string{in(`"LocalAddresses":"hollow"`)}, map[string]string{from: denied}},
		"a nested set without members is all":   {[]string{in(`"LocalAddresses":"none"`)}, map[string]string{from: "allowed by allow"}},
		"to itself, literals":                   {[]string{in(`"RemoteAddresses":"10.0.0.1"`)}, map[string]string{"In 10.0.0.1 10.0.0.1 6 80": "allowed by allow", "In 10.0.0.2 10.0.0.2 6 80": denied}},
		"to itself, sets":                       {[]string{out(`"RemoteAddresses":"own"`)}, map[string]string{"Out 10.0.0.1 10.0.0.1 6 80": "allowed by allow", "Out 10.0.0.2 10.0.0.2 6 80": denied}},
		"a packet of others":                    {nil, map[string]string{"In 10.0.0.1 10.0.1.2 6 80": "unknown", "Out 10.0.1.2 10.0.0.1 6 80": "unknown", "Up 10.0.0.1 10.0.0.1 6 80": "unknown"}},
		"IPv6":                                  {nil, map[string]string{"In fd00::2 fd00::1 6 80": allowed, "In 10.0.1.2 fd00::1 6 80": "unknown"}},
		"all of IPv6 is no IPv4":                {[]string{settings("In", "Block", `"RemoteAddresses":"::/0"`), in(`"RemoteAddresses":"10.0.1.2"`)}, map[string]string{from: "allowed by allow"}},
		"a rule of the switch beside a Host's":  {[]string{settings("In", "Block", `"RuleType":"Host","Priority":0`), in(`"RuleType":"Switch"`)}, map[string]string{from: "allowed by allow"}},
		"a rule without RuleType is the switch": {[]string{settings("In", "Block", "")}, map[string]string{from: "denied by block"}},
	} {
		t.Run(name, func(t *testing.T) {
			sim := hnsfault.New(hnsfault.Options{})
			for _, set := range factSets {
				require.NoError(t, sim.PutSet(set))
			}
			policies := []hns.EndpointPolicy{{Type: "OutBoundNAT", Settings: []byte(`{"Exceptions":["10.0.0.0/8"]}`)}}
			for _, text := range test.acls {
				policies = append(policies, hns.EndpointPolicy{Type: hns.PolicyTypeACL, Settings: []byte(text)})
			}
			require.NoError(t, sim.CreateEndpoint(hnssim.SimEndpoint{ID: "ep", Addrs: factAddrs, Policies: policies}))
			for question, want := range test.want {
				require.Equal(t, want, answer(t, sim, question), question)
			}
		})
	}
}

// answer asks "DIRECTION SOURCE DESTINATION PROTOCOL PORT".
func answer(t *testing.T, sim *hnsfault.Sim, question string) string {
	t.Helper()
	var dir, src, dst string
	var p hnssim.Packet
	_, err := fmt.Sscan(question, &dir, &src, &dst, &p.Protocol, &p.DstPort)
	require.NoError(t, err)
	p.Src, p.Dst = netip.MustParseAddr(src), netip.MustParseAddr(dst)
	v, err := sim.Trace("ep", hns.DirectionType(dir), p)
	if err != nil {
		require.True(t, errors.Is(err, hns.ErrInvalid), err)
		return "unknown"
	}
	word := "denied"
	if v.Allowed {
		word = "allowed"
	}
	for i, rule := range v.Matched {
		word += [...]string{" by ", " "}[min(i, 1)] + rule.ID
	}
	return word
}

package tracer

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The endpoint of every case is 10.0.0.1, and 10.0.0.2 too.
var (
	addrs = []netip.Addr{netip.MustParseAddr("fd00::1"), netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")}
	sets  = []Set{
		{ID: "nested", Type: "NESTEDIPSET", Values: "team,empty"}, // before its members
		{ID: "hollow", Type: "NESTEDIPSET", Values: "empty"},
		{ID: "none", Type: "NESTEDIPSET"},
		{ID: "empty", Type: "IPSET"},
		{ID: "team", Type: "IPSET", Values: "10.0.1.2,10.0.2.0/24"},
		{ID: "web", Type: "IPSET", Values: "10.0.1.2/32,10.0.1.3"},
		{ID: "own", Type: "IPSET", Values: "10.0.0.1"},
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

// TestDecide has a line for each fact that the tracer goes by.
func TestDecide(t *testing.T) {
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
		"Out: the destination's port is remote": {[]string{out(`"RemotePorts":"80"`)}, map[string]string{to: "allowed by allow", "Out 10.0.0.1 10.0.1.2 6 81": denied}},
		"In: a port of the source":              {[]string{in(`"RemotePorts":"80"`)}, map[string]string{from: "unknown", to: denied}},
		"Out: a port of the source":             {[]string{out(`"LocalPorts":"80"`)}, map[string]string{to: "unknown", from: denied}},

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
		"IPv6":                                  {nil, map[string]string{"In fd00::2 fd00::1 6 80": "unknown", "In 10.0.1.2 fd00::1 6 80": "unknown"}},
		"all of IPv6 is no IPv4":                {[]string{settings("In", "Block", `"RemoteAddresses":"::/0"`), in(`"RemoteAddresses":"10.0.1.2"`)}, map[string]string{from: "allowed by allow"}},
		"a rule of the switch beside a Host's":  {[]string{settings("In", "Block", `"RuleType":"Host"`), in(`"RuleType":"Switch"`)}, map[string]string{from: "allowed by allow"}},
		"a rule without RuleType is the switch": {[]string{settings("In", "Block", "")}, map[string]string{from: "denied by block"}},
	} {
		t.Run(name, func(t *testing.T) {
			network, err := NewNetwork(sets)
			require.NoError(t, err)
			policies := []Policy{{Type: "OutBoundNAT", Settings: []byte(`{"Exceptions":["10.0.0.0/8"]}`)}}
			for _, text := range test.acls {
				policies = append(policies, Policy{"ACL", []byte(text)})
			}
			e, err := network.Endpoint(addrs, policies)
			require.NoError(t, err)
			for question, want := range test.want {
				require.Equal(t, want, answer(t, e, question), question)
			}
		})
	}
}

// answer asks "DIRECTION SOURCE DESTINATION PROTOCOL PORT".
func answer(t *testing.T, e *Endpoint, question string) string {
	t.Helper()
	var dir, src, dst string
	var p Packet
	_, err := fmt.Sscan(question, &dir, &src, &dst, &p.Protocol, &p.Port)
	require.NoError(t, err)
	p.Src, p.Dst = netip.MustParseAddr(src), netip.MustParseAddr(dst)
	v, err := e.Decide(Direction(dir), p)
	if err != nil {
		require.ErrorIs(t, err, ErrUnknown)
		return "unknown"
	}
	word := "denied"
	if v.Allowed {
		word = "allowed"
	}
	if len(v.Deciding) > 0 {
		word += " by " + strings.Join(v.Deciding, " ")
	}
	return word
}

// TestUnknownRules: what the facts do not tell is not guessed.
func TestUnknownRules(t *testing.T) {
	network, err := NewNetwork(sets)
	require.NoError(t, err)
	for name, p := range map[string]Policy{
		"a tier":                {"TierAcl", []byte("{}")},
		"no JSON":               {"ACL", []byte("{")},
		"action":                {"ACL", []byte(settings("In", "Pass", ""))},
		"direction":             {"ACL", []byte(settings("Both", "Allow", ""))},
		"layer":                 {"ACL", []byte(in(`"RuleType":"Wire"`))},
		"name of a protocol":    {"ACL", []byte(in(`"Protocols":"TCP"`))},
		"several protocols":     {"ACL", []byte(in(`"Protocols":"6,17"`))},
		"no protocol":           {"ACL", []byte(in(`"Protocols":"257"`))},
		"below all protocols":   {"ACL", []byte(in(`"Protocols":"-1"`))},
		"no port":               {"ACL", []byte(in(`"LocalPorts":"http"`))},
		"half a range":          {"ACL", []byte(in(`"LocalPorts":"80-"`))},
		"a range upside down":   {"ACL", []byte(in(`"LocalPorts":"82-80"`))},
		"an empty port":         {"ACL", []byte(in(`"LocalPorts":"80,"`))},
		"a missing set":         {"ACL", []byte(in(`"LocalAddresses":"lost"`))},
		"a blank":               {"ACL", []byte(in(`"RemoteAddresses":"10.0.0.1, 10.0.0.2"`))},
		"any":                   {"ACL", []byte(in(`"RemoteAddresses":"Any"`))},
		"literals and sets":     {"ACL", []byte(in(`"LocalAddresses":"10.0.1.2,web"`))},
		"host bits":             {"ACL", []byte(in(`"RemoteAddresses":"10.0.0.1/24"`))},
		"IPv6 address":          {"ACL", []byte(in(`"RemoteAddresses":"fd00::1"`))},
		"IPv6 block":            {"ACL", []byte(in(`"RemoteAddresses":"fd00::/8"`))},
		"IPv4 in IPv6":          {"ACL", []byte(in(`"RemoteAddresses":"::ffff:10.0.0.0/120"`))},
		"unreadable, also Host": {"ACL", []byte(in(`"RuleType":"Host","RemoteAddresses":"lost"`))},
	} {
		_, err := network.Endpoint(addrs, []Policy{p})
		require.ErrorIs(t, err, ErrUnknown, name)
	}
	for name, s := range map[string][]Set{
		"type":             {{ID: "a", Type: "IPSETS"}},
		"no type":          {{ID: "a"}},
		"twice":            {{ID: "a", Type: "IPSET"}, {ID: "a", Type: "IPSET"}},
		"IPv6 value":       {{ID: "a", Type: "IPSET", Values: "10.0.0.1,fd00::1"}},
		"blank":            {{ID: "a", Type: "IPSET", Values: "10.0.0.1, 10.0.0.2"}},
		"empty value":      {{ID: "a", Type: "IPSET", Values: "10.0.0.1,"}},
		"host bits":        {{ID: "a", Type: "IPSET", Values: "10.0.0.1/8"}},
		"unknown member":   {{ID: "a", Type: "NESTEDIPSET", Values: "b"}},
		"member addresses": {{ID: "a", Type: "NESTEDIPSET", Values: "10.0.0.1"}},
		"nested twice":     {{ID: "a", Type: "NESTEDIPSET", Values: "b"}, {ID: "b", Type: "NESTEDIPSET"}},
	} {
		_, err := NewNetwork(s)
		require.ErrorIs(t, err, ErrUnknown, name)
	}
}

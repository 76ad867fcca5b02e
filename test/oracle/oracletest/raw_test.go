package oracletest

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// Rules that the dataplane does not write, but others may: what a rule means is
// not only right where we make use of it.

// ground is the sets of rawRules, and the endpoint that they are put on.
const ground = `network azure
set both NESTEDIPSET front,web
set empty IPSET
set front IPSET 10.0.1.3
set none NESTEDIPSET
set only-empty NESTEDIPSET empty
set self IPSET 10.0.0.1
set web IPSET 10.0.1.2,10.0.2.0/24
endpoint ep addrs=fd00::1,10.0.0.1,10.0.0.2
`

// rawRules are one list of rules each.
var rawRules = map[string]string{
	"In: sets at both sides":    "acl In 222 Allow azure-acl-a local-sets=web remote-sets=self",
	"In: remote sets":           "acl In 222 Allow azure-acl-a remote-sets=web",
	"Out: sets at both sides":   "acl Out 222 Allow azure-acl-a local-sets=self remote-sets=web",
	"Out: local sets":           "acl Out 222 Allow azure-acl-a local-sets=web",
	"sets are ANDed":            "acl In 222 Allow azure-acl-a local-sets=both,web",
	"an empty set":              "acl In 222 Allow azure-acl-a local-sets=empty",
	"an empty nested set":       "acl In 222 Allow azure-acl-a local-sets=none",
	"a nested set of an empty":  "acl In 222 Allow azure-acl-a local-sets=only-empty",
	"In: literals":              "acl In 222 Allow azure-acl-a local=10.0.0.1 remote=10.0.1.2,10.0.2.0/25",
	"Out: literals":             "acl Out 222 Allow azure-acl-a local=10.0.0.1 remote=10.0.1.2,10.0.2.0/25",
	"literals and sets":         "acl Out 222 Allow azure-acl-a local=10.0.0.1 remote-sets=web",
	"any protocol":              "acl In 222 Allow azure-acl-a\nacl Out 222 Block azure-acl-b proto=256",
	"ports":                     "acl In 222 Allow azure-acl-a proto=6 local-ports=7,80-82\nacl Out 222 Allow azure-acl-b proto=6 remote-ports=7,80-82",
	"ports of the source":       "acl In 222 Allow azure-acl-a proto=6 remote-ports=80",
	"a Host rule":               "acl In 0 Block azure-acl-a rule=Host",
	"no layer":                  `policy ACL {"Action":"Allow","Direction":"In","Priority":65500}`,
	"tiers":                     `policy TierAcl {"Name":"a"}`,
	"one priority, two actions": "acl In 222 Allow azure-acl-a local-sets=web\nacl In 222 Block azure-acl-b remote=10.0.1.2",
	"several of one priority":   "acl In 222 Allow azure-acl-a local-sets=web\nacl In 222 Allow azure-acl-b\nacl In 300 Block azure-acl-c",
}

// TestRawRules: the tracers agree on every form of rule.
func TestRawRules(t *testing.T) {
	for name, lines := range rawRules {
		t.Run(name, func(t *testing.T) {
			sim, err := hnsfault.ParseDump(ground + "  " + strings.ReplaceAll(lines, "\n", "\n  ") + "\n")
			require.NoError(t, err)
			sameVerdicts(t, sim, map[string]int{})
		})
	}
}

// TestRandomRules is TestRawRules with lists of random rules, as far as the
// simulator takes them.
func TestRandomRules(t *testing.T) {
	seen := map[string]int{}
	check(t, func(t *rapid.T) {
		sim, err := hnsfault.ParseDump(ground)
		require.NoError(t, err)
		ids := map[string]string{"": ""}
		for _, set := range sim.Sets() {
			ids[set.Name] = set.ID
		}
		var policies []hns.EndpointPolicy
		for i := range rapid.IntRange(1, 6).Draw(t, "rules") {
			next := append(slices.Clone(policies), drawRule(t, fmt.Sprintf("r%d", i), ids))
			if err := sim.SetPolicies("ep", next); err != nil {
				require.ErrorIs(t, err, hns.ErrInvalid)
				seen["refused"]++
				continue
			}
			policies = next
		}
		sameVerdicts(t, sim, seen)
	})
	for _, what := range []string{"allowed", "denied", "default", "not known", "refused"} {
		ever(t, seen[what], "never: "+what)
	}
}

// drawRule draws an ACL as somebody may have written it, with any set anywhere.
func drawRule(t *rapid.T, id string, ids map[string]string) hns.EndpointPolicy {
	pick := func(what string, texts ...string) string { return rapid.SampledFrom(texts).Draw(t, what) }
	address := func(what string) string {
		if rapid.Bool().Draw(t, what+" are sets") {
			a, b := ids[pick(what, "both", "empty", "none", "only-empty", "self", "web")], ids[pick(what, "", "", "both", "none", "web")]
			return strings.Trim(a+","+b, ",")
		}
		return pick(what, "", "", "10.0.1.2", "10.0.0.1/32,10.0.1.2", "10.0.0.0/8", "0.0.0.0/0", "10.0.2.0/25,10.0.1.3")
	}
	acl := map[string]any{
		"Id": pick("owner", "azure-acl-", "cni-") + id, "Action": pick("action", "Allow", "Block"), "Direction": pick("direction", "In", "Out"),
		"Priority": rapid.SampledFrom([]int{200, 222, 222, 3000}).Draw(t, "priority"),
		"Scope":    0, "Type": "ACL",
		"LocalAddresses": address("local addresses"), "RemoteAddresses": address("remote addresses"),
	}
	for _, field := range [][]string{
		{"RuleType", "", "Switch", "Switch", "Host"}, {"Protocols", "", "256", "6", "17", "1"},
		{"LocalPorts", "", "", "", "80", "1-90,443"}, {"RemotePorts", "", "", "", "80", "1-90,443"},
	} {
		if text := pick(field[0], field[1:]...); text != "" || rapid.Bool().Draw(t, "empty") {
			acl[field[0]] = text
		}
	}
	if acl["RuleType"] == "Host" {
		delete(acl, "Priority")
	}
	settings, err := json.Marshal(acl)
	require.NoError(t, err)
	return hns.EndpointPolicy{Type: hns.PolicyTypeACL, Settings: settings}
}

// sameVerdicts asks both tracers about packets of the endpoint, with every address
// that a set or a rule has, or just has not, in both directions.
func sameVerdicts(t tester, sim *hnsfault.Sim, seen map[string]int) {
	s, err := newSecond(sim)
	require.NoError(t, err)
	for _, text := range []string{"10.0.0.1", "10.0.0.2", "10.0.1.2", "10.0.1.3", "10.0.2.0", "10.0.2.128", "10.0.3.0", "8.8.8.8"} {
		other := netip.MustParseAddr(text)
		for _, own := range []string{"10.0.0.1", "10.0.0.2"} {
			own := netip.MustParseAddr(own)
			for _, port := range []struct {
				protocol uint8
				number   uint16
			}{{6, 80}, {6, 83}, {17, 80}, {1, 0}} {
				for dir, p := range map[hns.Direction]hnssim.Packet{hns.In: {Src: other, Dst: own}, hns.Out: {Src: own, Dst: other}} {
					p.Protocol, p.DstPort = port.protocol, port.number
					v, err := s.both(t, "ep", dir, p)
					switch {
					case err != nil:
						seen["not known"]++
					case v.Default:
						seen["default"]++
					case v.Allowed:
						seen["allowed"]++
					default:
						seen["denied"]++
					}
				}
			}
		}
	}
}

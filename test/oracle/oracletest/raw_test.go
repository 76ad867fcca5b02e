package oracletest

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

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
			sameVerdicts(t, sim)
		})
	}
}

// sameVerdicts asks both tracers about packets of the endpoint, with every address
// that a set or a rule has, or just has not, in both directions.
func sameVerdicts(t tester, sim *hnsfault.Sim) {
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
					_, err := s.both(t, "ep", dir, p)
					require.True(t, err == nil || errors.Is(err, hns.ErrInvalid), "%v", err)
				}
			}
		}
	}
}

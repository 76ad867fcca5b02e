package hnsfault

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/tool/hnssim"
)

func TestLoseRules(t *testing.T) {
	s := newVillage(t)
	require.NoError(t, s.LoseRules("ep-1"))
	require.Equal(t, `network azure
set db IPSET 10.0.0.5,10.9.0.0/16
set group NESTEDIPSET db,web
set web IPSET 10.0.0.4
endpoint ep-1 addrs=10.0.0.4
  policy ACL {"Protocols":"6","Action":"Block", "Direction":"Out","Priority":200,"RemoteAddresses":"10.0.0.7/32","Scope":0,"Type":"ACL"}
  policy OutBoundNAT {"Exceptions":["10.0.0.0/8"],  "Virtual":1}
`, s.Dump())
	require.NoError(t, s.ModifySets(t.Context(), hns.Remove, []hns.SetPolicy{list("group")}), "nothing names it any more")
	require.ErrorIs(t, s.LoseRules("ep-9"), hns.ErrNotFound)
	require.Empty(t, s.Calls()[1:], "it is no call of ours")
}

// TestLoseSet: what names a set goes with it, over nested sets too.
func TestLoseSet(t *testing.T) {
	for id, want := range map[string]string{
		"db": `network azure
set web IPSET 10.0.0.4
endpoint ep-1 addrs=10.0.0.4
  acl In 3000 Block azure-acl-x.block
  acl Out 222 Allow azure-acl-x.peers proto=132 remote=10.0.0.9,10.1.0.0/16 remote-ports=7
`,
		"group": `network azure
set db IPSET 10.0.0.5,10.9.0.0/16
set web IPSET 10.0.0.4
endpoint ep-1 addrs=10.0.0.4
  acl In 3000 Block azure-acl-x.block
  acl Out 222 Allow azure-acl-x.peers proto=132 remote=10.0.0.9,10.1.0.0/16 remote-ports=7
`,
	} {
		s := newVillage(t)
		require.NoError(t, s.LoseSet(derivedID(id)))
		require.Equal(t, want, withoutOthers(s), id)
		require.NoError(t, s.ModifySets(t.Context(), hns.Remove, []hns.SetPolicy{leaf("web")}), "what is left is counted right")
		require.ErrorIs(t, s.LoseSet(derivedID(id)), hns.ErrNotFound)
	}
}

// TestLoseAll: others' sets and rules stay, unless they name what is lost.
func TestLoseAll(t *testing.T) {
	s := newVillage(t)
	theirs := hns.SetPolicy{ID: "theirs", Name: "theirs", Type: hns.IPSet, Values: []string{"10.0.0.8"}}
	require.NoError(t, s.PutSet(theirs))
	naming := func(id string) hns.EndpointPolicy {
		return hns.EndpointPolicy{Type: "ACL", Settings: []byte(`{"Action":"Allow","Direction":"In","Priority":65500,"LocalAddresses":"` + id + `"}`)}
	}
	require.NoError(t, s.CreateEndpoint(hnssim.NewEndpoint{ID: "ep-2", Policies: []hns.EndpointPolicy{naming("theirs"), naming(derivedID("web"))}}))
	probe := Probe{Endpoint: "ep-1", Direction: hns.In, Packet: hnssim.Packet{
		Src: netip.MustParseAddr("10.7.0.1"), Dst: netip.MustParseAddr("10.0.0.4"), Protocol: 6, DstPort: 80,
	}}
	require.Equal(t, []Outcome{Denied}, s.Watch(probe))
	restarted := s.restarted
	s.LoseAll()
	require.Equal(t, "network azure\nset theirs IPSET 10.0.0.8 id=theirs\nendpoint ep-1 addrs=10.0.0.4\nendpoint ep-2\n", withoutOthers(s))
	require.Equal(t, []hns.EndpointPolicy{naming("theirs")}, s.Endpoints()[1].Policies)
	require.Equal(t, 1, s.Writes())
	require.Equal(t, restarted, s.restarted, "the process is the same")
}

// withoutOthers is the dump without others' policies.
func withoutOthers(s *Sim) string {
	var out string
	for line := range strings.Lines(s.Dump()) {
		if len(line) < 8 || line[2:8] != "policy" {
			out += line
		}
	}
	return out
}

// TestOneSetSticks: of sets that fail or are refused for good nothing lands in a
// request that has one of them, and everything in another.
func TestOneSetSticks(t *testing.T) {
	write := func(s *Sim, verb hns.Verb, sets ...hns.SetPolicy) error { return s.ModifySets(t.Context(), verb, sets) }
	for name, test := range map[string]struct {
		stick func(*Sim)
		class error
		code  uint32
	}{
		"fails, by name":     {func(s *Sim) { s.Inject(Fault{Target: "db", Times: -1}) }, hns.ErrUnavailable, 0},
		"fails, by Id":       {func(s *Sim) { s.Inject(Fault{Target: derivedID("db"), Times: -1}) }, hns.ErrUnavailable, 0},
		"fails with a code":  {func(s *Sim) { s.Inject(Fault{Target: "db", Times: -1, Code: oddCode}) }, hns.ErrUnlisted, oddCode},
		"with a listed code": {func(s *Sim) { s.Inject(Fault{Target: "db", Times: -1, Code: 0x803B0030}) }, hns.ErrInvalid, 0x803B0030},
		"is refused": {func(s *Sim) { s.RejectSet(func(p hns.SetPolicy) bool { return p.Name == "db" }) },
			hns.ErrInvalid, codeInvalidPolicy},
		"is refused with a code": {func(s *Sim) {
			s.RejectSet(func(p hns.SetPolicy) bool { return p.Name == "db" })
			s.SetPersonality(Personality{Codes: map[Answer]uint32{BadSet: oddCode}})
		}, hns.ErrUnlisted, oddCode},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTown(t)
			test.stick(s)
			for range 3 {
				for _, sets := range [][]hns.SetPolicy{{leaf("db", "10.1.1.1")}, {leaf("web", "10.1.1.2"), leaf("db", "10.1.1.1"), leaf("front")}} {
					err := write(s, hns.Update, sets...)
					require.ErrorIs(t, err, test.class)
					require.Equal(t, test.code, opError(t, err).Code)
					require.Equal(t, town, s.Dump())
				}
				require.NoError(t, write(s, hns.Update, leaf("web", "10.0.0.4"), leaf("front")))
			}
			require.Empty(t, s.UnusedFaults())
		})
	}
	s := newTown(t)
	s.Inject(Fault{Op: hns.OpSets(hns.Remove), Target: "lonely", Times: -1, Code: oddCode})
	require.NoError(t, write(s, hns.Update, leaf("lonely")), "only its removal")
	require.ErrorIs(t, write(s, hns.Remove, leaf("lonely")), hns.ErrUnlisted)
	require.ErrorIs(t, write(s, hns.Remove, leaf("db"), leaf("lonely")), hns.ErrUnlisted)
	require.NoError(t, write(s, hns.Remove, leaf("db")))
}

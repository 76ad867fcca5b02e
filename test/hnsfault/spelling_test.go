package hnsfault

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/effort"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// village is a node with a rule of each kind that is spelled, and with others'.
const village = `network azure
set db IPSET 10.0.0.5,10.9.0.0/16
set group NESTEDIPSET db,web
set web IPSET 10.0.0.4
endpoint ep-1 addrs=10.0.0.4
  acl In 222 Allow azure-acl-x.ports proto=6 local-sets=group,web local-ports=80,443,8000-8080
  acl In 3000 Block azure-acl-x.block
  acl Out 222 Allow azure-acl-x.peers proto=132 remote=10.0.0.9,10.1.0.0/16 remote-ports=7
  policy ACL {"Protocols":"6","Action":"Block", "Direction":"Out","Priority":200,"RemoteAddresses":"10.0.0.7/32","Scope":0,"Type":"ACL"}
  policy OutBoundNAT {"Exceptions":["10.0.0.0/8"],  "Virtual":1}
`

func newVillage(t testing.TB) *Sim {
	t.Helper()
	s, err := ParseDump(village)
	require.NoError(t, err)
	require.Equal(t, village, s.Dump())
	return s
}

// shownRules reads the rules of ep-1 as they stand there, by the end of their Id
// in small letters; others' policies by their type.
func shownRules(t *testing.T, s *Sim) map[string]string {
	t.Helper()
	e, err := s.GetEndpoint(t.Context(), "ep-1")
	require.NoError(t, err)
	out := map[string]string{}
	for _, p := range e.Policies {
		var fields struct {
			ID string `json:"Id"`
		}
		require.NoError(t, json.Unmarshal(p.Settings, &fields))
		key := strings.TrimPrefix(strings.ToLower(fields.ID), "azure-acl-x.")
		if key == "" {
			key = p.Type
		}
		out[key] = string(p.Settings)
	}
	return out
}

func shownSets(t *testing.T, s *Sim) map[string]hns.SetPolicy {
	t.Helper()
	n, err := s.Network(t.Context())
	require.NoError(t, err)
	out := map[string]hns.SetPolicy{}
	for _, p := range n.Sets {
		out[p.Name] = p
	}
	return out
}

// TestSpelling: what is shown under each way of spelling, and that nothing but
// what is shown differs.
func TestSpelling(t *testing.T) {
	shows := func(rule string, texts ...string) func(*testing.T, *Sim) {
		return func(t *testing.T, s *Sim) {
			for _, text := range texts {
				require.Contains(t, shownRules(t, s)[rule], text)
			}
		}
	}
	lacks := func(rule, text string) func(*testing.T, *Sim) {
		return func(t *testing.T, s *Sim) { require.NotContains(t, shownRules(t, s)[rule], text) }
	}
	changes := func(what func(*testing.T, *Sim) string) func(*testing.T, *Sim) {
		return func(t *testing.T, s *Sim) {
			seen := map[string]bool{}
			for range 50 {
				seen[what(t, s)] = true
			}
			require.Greater(t, len(seen), 1)
		}
	}
	group := derivedID("group")
	for name, test := range map[string]struct {
		spelling Spelling
		check    []func(*testing.T, *Sim)
	}{
		"host mask": {Spelling{HostMask: true}, []func(*testing.T, *Sim){
			shows("peers", `"10.0.0.9/32,10.1.0.0/16"`), shows("ports", group),
			func(t *testing.T, s *Sim) {
				require.Equal(t, []string{"10.0.0.4/32"}, shownSets(t, s)["web"].Values)
				require.Equal(t, []string{"10.0.0.5/32", "10.9.0.0/16"}, shownSets(t, s)["db"].Values)
			}}},
		"ports":           {Spelling{PortOrder: true}, []func(*testing.T, *Sim){shows("ports", `"8000-8080,443,80"`)}},
		"protocols":       {Spelling{ProtocolNames: true}, []func(*testing.T, *Sim){shows("ports", `"TCP"`), shows("peers", `"SCTP"`), shows("block", `"Any"`)}},
		"no protocol":     {Spelling{NoProtocol: true, ProtocolNames: true}, []func(*testing.T, *Sim){shows("ports", `"TCP"`), lacks("block", "Protocols")}},
		"no rule type":    {Spelling{NoRuleType: true}, []func(*testing.T, *Sim){lacks("ports", "RuleType"), lacks("block", "RuleType")}},
		"capital rules":   {Spelling{UpperRuleIDs: true}, []func(*testing.T, *Sim){shows("ports", `"AZURE-ACL-X.PORTS"`, group)}},
		"an extra field":  {Spelling{Extra: true}, []func(*testing.T, *Sim){shows("ports", `"Weight":7`), shows("ACL", `"Weight":7`), lacks("OutBoundNAT", "Weight")}},
		"strange":         {Spelling{Strange: "ip:", HostMask: true}, []func(*testing.T, *Sim){shows("peers", `"ip:10.0.0.9/32,ip:10.1.0.0/16"`), shows("ports", `"`+group)}},
		"strange ports":   {Spelling{StrangePorts: "p"}, []func(*testing.T, *Sim){shows("ports", `"p80,p443,p8000-8080"`), lacks("block", "Ports")}},
		"counter of ours": {Spelling{Counter: true}, []func(*testing.T, *Sim){changes(func(t *testing.T, s *Sim) string { return shownRules(t, s)["ports"] })}},
		"counter":         {Spelling{Counter: true}, []func(*testing.T, *Sim){changes(func(t *testing.T, s *Sim) string { return shownRules(t, s)["ACL"] })}},
		"restless": {Spelling{Restless: true}, []func(*testing.T, *Sim){
			changes(func(t *testing.T, s *Sim) string { return shownRules(t, s)["OutBoundNAT"] }),
			func(t *testing.T, s *Sim) {
				require.Equal(t, shownRules(t, newVillage(t))["ports"], shownRules(t, s)["ports"], "ours are not")
			}}},
		"capital sets": {Spelling{UpperSetIDs: true}, []func(*testing.T, *Sim){
			shows("ports", strings.ToUpper(group)+","+strings.ToUpper(derivedID("web"))),
			func(t *testing.T, s *Sim) {
				require.Equal(t, strings.ToUpper(group), shownSets(t, s)["group"].ID)
				require.Contains(t, shownSets(t, s)["group"].Values, strings.ToUpper(derivedID("db")))
				require.Equal(t, []string{"10.0.0.4"}, shownSets(t, s)["web"].Values)
			}}},
		"capital GUIDs": {Spelling{UpperGUIDs: true}, []func(*testing.T, *Sim){func(t *testing.T, s *Sim) {
			ids, err := s.EndpointIDs(t.Context())
			require.NoError(t, err)
			require.Equal(t, []string{"EP-1"}, ids)
			release := s.Hold(t.Context(), "EP-1")
			e, err := s.GetEndpoint(t.Context(), "EP-1")
			require.NoError(t, err)
			require.Equal(t, "EP-1", e.ID)
			require.NoError(t, s.AddACLs(t.Context(), "Ep-1", []hns.ACL{allow(nil)}))
			release()
			require.NoError(t, s.ReplacePolicies(t.Context(), "EP-1", e.Policies))
			calls := s.Calls()
			require.Equal(t, []any{"ep-1", 1}, []any{calls[2].Target, calls[2].DLLCalls}, "one endpoint, one handle")
		}}},
		"any order": {Spelling{Shuffled: true}, []func(*testing.T, *Sim){
			changes(func(t *testing.T, s *Sim) string {
				e, err := s.GetEndpoint(t.Context(), "ep-1")
				require.NoError(t, err)
				return fmt.Sprint(e.Policies)
			}),
			changes(func(t *testing.T, s *Sim) string {
				n, err := s.Network(t.Context())
				require.NoError(t, err)
				return n.Sets[0].Name
			}),
			changes(func(t *testing.T, s *Sim) string { return shownSets(t, s)["db"].Values[0] }),
			func(t *testing.T, s *Sim) {
				require.NoError(t, s.CreateEndpoint(hnssim.NewEndpoint{ID: "ep-2"}))
				changes(func(t *testing.T, s *Sim) string { ids, _ := s.EndpointIDs(t.Context()); return ids[0] })(t, s)
				require.NoError(t, s.DeleteEndpoint("ep-2"))
			}}},
	} {
		t.Run(name, func(t *testing.T) {
			plain, s := newVillage(t), newVillage(t)
			s.SetPersonality(Personality{Spelling: test.spelling})
			for _, check := range test.check {
				check(t, s)
			}
			require.Equal(t, village, s.Dump(), "what is stored")
			require.Equal(t, plain.Endpoints(), s.Endpoints(), "what is stored")
			require.Equal(t, plain.Sets(), s.Sets(), "what is stored")
			sendBack(t, s)
			require.Equal(t, village, s.Dump(), "what it shows it takes back, as it was")
			s.SetPersonality(Personality{})
			require.Equal(t, look(t, plain), look(t, s), "lifted")
		})
	}
}

// sendBack reads everything and writes it as it was shown.
func sendBack(t *testing.T, s *Sim) {
	t.Helper()
	n, err := s.Network(t.Context())
	require.NoError(t, err)
	for _, p := range n.Sets {
		require.NoError(t, s.ModifySets(t.Context(), hns.Update, []hns.SetPolicy{p}))
	}
	ids, err := s.EndpointIDs(t.Context())
	require.NoError(t, err)
	for _, id := range ids {
		e, err := s.GetEndpoint(t.Context(), id)
		require.NoError(t, err)
		require.NoError(t, s.ReplacePolicies(t.Context(), id, e.Policies))
	}
}

// nodeLook is all that a client can read, without an order.
type nodeLook struct {
	Sets      []hns.SetPolicy
	Endpoints []hns.Endpoint
}

func look(t *testing.T, s *Sim) nodeLook {
	t.Helper()
	n, err := s.Network(t.Context())
	require.NoError(t, err)
	ids, err := s.EndpointIDs(t.Context())
	require.NoError(t, err)
	out := nodeLook{Sets: n.Sets}
	for _, p := range out.Sets {
		slices.Sort(p.Values)
	}
	for _, id := range ids {
		e, err := s.GetEndpoint(t.Context(), id)
		require.NoError(t, err)
		slices.SortFunc(e.Policies, func(a, b hns.EndpointPolicy) int { return strings.Compare(string(a.Settings), string(b.Settings)) })
		out.Endpoints = append(out.Endpoints, e)
	}
	return out
}

// TestOthersAreRecognised: an Update that carries others' policies without what is
// undocumented loses nothing of theirs; what HNS itself added is not kept.
func TestOthersAreRecognised(t *testing.T) {
	s := newVillage(t)
	s.SetPersonality(Personality{Refuses: []Refusal{{What: ForeignExtras, Code: oddCode}}, Spelling: Spelling{Extra: true, Counter: true, Restless: true}})
	e, err := s.GetEndpoint(t.Context(), "ep-1")
	require.NoError(t, err)
	require.ErrorIs(t, s.ReplacePolicies(t.Context(), "ep-1", e.Policies), hns.ErrUnlisted)
	for i, p := range e.Policies {
		if a, err := p.ACL(); err == nil {
			e.Policies[i] = hns.NewACLPolicy(a)
		}
	}
	require.NoError(t, s.ReplacePolicies(t.Context(), "ep-1", e.Policies))
	require.Equal(t, village, s.Dump())

	s.SetPersonality(Personality{Spelling: Spelling{Extra: true, Counter: true}})
	for _, settings := range []string{`{"Action":"Allow","Direction":"In","Priority":65500,"Scope":1}`, `{ "Exceptions":[] }`} {
		kind := hns.PolicyTypeACL
		if strings.Contains(settings, "Exceptions") {
			kind = "OutBoundNAT"
		}
		fresh := strings.Replace(settings, "}", `,"Weight":7,"HitCount":3}`, 1)
		require.NoError(t, s.ReplacePolicies(t.Context(), "ep-1", []hns.EndpointPolicy{{Type: kind, Settings: []byte(fresh)}}))
		require.JSONEq(t, settings, string(s.Endpoints()[0].Policies[0].Settings))
	}
	bytes := `{ "Exceptions" : [1] }`
	require.NoError(t, s.ReplacePolicies(t.Context(), "ep-1", []hns.EndpointPolicy{{Type: "OutBoundNAT", Settings: []byte(bytes)}}))
	require.Equal(t, bytes, string(s.Endpoints()[0].Policies[0].Settings), "what is new stays byte for byte")
}

// TestRandomPersonalities: whatever the personality, what is accepted is stored as a
// plain HNS stores it, what is refused changes nothing, packets fare the same, what
// is shown can be sent back, and lifted it is a plain node.
func TestRandomPersonalities(t *testing.T) {
	for seed := range uint64(effort.Of(40, 80, 150)) {
		p := DrawPersonality(seed)
		p.Latency, p.Half, p.Ignored, p.Endpoints, p.Codes = 0, Chance{}, Chance{}, EndpointHabits{}, nil
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			plain, s := newVillage(t), newVillage(t)
			s.SetPersonality(p)
			chance := rand.New(rand.NewPCG(seed, 9))
			accepted := 0
			for range 60 {
				do := drawWrite(chance)
				before := s.Dump()
				if err := do(t, s); err == nil {
					accepted++
					require.NoError(t, do(t, plain), "it takes what no HNS takes")
				} else {
					require.Equal(t, before, s.Dump(), "refused")
				}
				require.Equal(t, plain.Dump(), s.Dump())
				probe := Probe{Endpoint: "ep-1", Direction: hns.In, Packet: hnssim.Packet{
					Src: netip.MustParseAddr("10.0.0.5"), Dst: netip.MustParseAddr("10.0.0.4"), Protocol: 6, DstPort: uint16(79 + chance.IntN(3)),
				}}
				require.Equal(t, plain.Ask(probe), s.Ask(probe))
			}
			require.Positive(t, accepted)
			if len(p.Refuses) == 0 {
				sendBack(t, s)
				require.Equal(t, plain.Dump(), s.Dump())
			}
			s.SetPersonality(Personality{})
			require.Equal(t, look(t, plain), look(t, s))
		})
	}
}

// drawWrite draws a request; some are refused by every HNS.
func drawWrite(chance *rand.Rand) func(*testing.T, *Sim) error {
	name := fmt.Sprintf("set-%d", chance.IntN(4))
	verb := []hns.Verb{hns.Add, hns.Update, hns.Remove}[chance.IntN(3)]
	values := []string{"10.0.0.5", "10.0.0.6/32", "10.0.0.0/24"}[:chance.IntN(4)]
	rules := []hns.ACL{allow(func(a *hns.ACL) {
		a.LocalAddresses = []string{derivedID(name), "", derivedID("web")}[chance.IntN(3)]
		a.LocalPorts = []string{"80", "79-81", "443,80"}[chance.IntN(3)]
		a.RemoteAddresses = []string{"", "10.0.0.5,10.0.0.6/32", "0.0.0.0/5"}[chance.IntN(3)]
		a.Action = []hns.Action{hns.Allow, hns.Block}[chance.IntN(2)]
		a.Priority = map[hns.Action]uint16{hns.Allow: 222, hns.Block: 3000}[a.Action]
	})}
	switch chance.IntN(4) {
	case 0:
		return modify(verb, leaf(name, values...))
	case 1:
		return modify(verb, list("list-"+name, "web", name))
	case 2:
		return func(t *testing.T, s *Sim) error { return s.AddACLs(t.Context(), "ep-1", rules) }
	}
	return replace(
		hns.EndpointPolicy{Type: "OutBoundNAT", Settings: []byte(`{"Exceptions":["10.0.0.0/8"]}`)}, hns.NewACLPolicy(rules[0]))
}

package hnsfault

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// Spelling says how HNS shows what was written to it; see understand.go for
// what comes back. What others wrote keeps its texts: of it only the bytes change.
type Spelling struct {
	HostMask      bool   // an address in a rule or a set has "/32"
	PortOrder     bool   // lists of ports are backwards
	ProtocolNames bool   // protocols are words: "TCP", "Any"
	NoProtocol    bool   // a rule for any protocol has no protocol
	NoRuleType    bool   // Switch is left out
	UpperSetIDs   bool   // Ids of sets are in capitals
	UpperRuleIDs  bool   // Ids of our rules are in capitals
	UpperGUIDs    bool   // GUIDs of endpoints are in capitals
	Extra         bool   // rules have a field that nobody wrote
	Counter       bool   // rules have a number that is another at each read
	Shuffled      bool   // policies, sets, values and GUIDs come in another order at each read
	Restless      bool   // others' policies have other blanks and another order of keys at each read
	Strange       string // before every address and block: a word that only experience explains
	StrangePorts  string // before every port and range
}

// Fields that rules are shown with.
const (
	extraField   = "Weight"
	counterField = "HitCount"
)

// protocolNames are the words for the protocols that WinNPM writes.
var protocolNames = map[string]string{"": "Any", "1": "ICMP", "6": "TCP", "17": "UDP", "132": "SCTP"}

// Network implements hns.Client.
func (s *Sim) Network(ctx context.Context) (hns.Network, error) {
	out, err := s.Sim.Network(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.odd != nil && err == nil {
		out.Sets = s.odd.showSets(out.Sets)
	}
	return out, err
}

// GetEndpoint implements hns.Client.
func (s *Sim) GetEndpoint(ctx context.Context, id string) (hns.Endpoint, error) {
	e, err := s.Sim.GetEndpoint(ctx, id)
	return s.shown(e, err)
}

// QueryEndpoint is GetEndpoint that shows every endpoint of the node, as the DLLs
// do.
func (s *Sim) QueryEndpoint(ctx context.Context, id string) (hns.Endpoint, error) {
	e, err := s.Sim.QueryEndpoint(ctx, id)
	return s.shown(e, err)
}

// shown returns an endpoint as HNS shows it.
func (s *Sim) shown(e hns.Endpoint, err error) (hns.Endpoint, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.odd
	if o == nil || err != nil {
		return e, err
	}
	o.reads++
	e.ID = o.guid(e.ID)
	for i, p := range e.Policies {
		e.Policies[i] = o.showPolicy(p)
	}
	if o.Spelling.Shuffled {
		shuffle(o.rng, e.Policies)
	}
	return e, nil
}

// guid returns the GUID of an endpoint as HNS shows it.
func (o *odd) guid(id string) string {
	if o != nil && o.Spelling.UpperGUIDs {
		return strings.ToUpper(id)
	}
	return id
}

// showSets returns sets as HNS shows them; the slice is the caller's.
func (o *odd) showSets(sets []hns.SetPolicy) []hns.SetPolicy {
	o.reads++
	for i, p := range sets {
		for j, v := range p.Values {
			sets[i].Values[j] = o.showAddress(v)
		}
		if o.Spelling.UpperSetIDs {
			sets[i].ID = strings.ToUpper(p.ID)
		}
		if o.Spelling.Shuffled {
			shuffle(o.rng, sets[i].Values)
		}
	}
	if o.Spelling.Shuffled {
		shuffle(o.rng, sets)
	}
	return sets
}

// showPolicy returns a policy as HNS shows it.
func (o *odd) showPolicy(out hns.EndpointPolicy) hns.EndpointPolicy {
	sp := o.Spelling
	rules := rulesIn([]hns.EndpointPolicy{out})
	isRule := len(rules) > 0
	ours := isRule && rules[0].Ours()
	if ours {
		out = hnssim.ReadBack(o.showRule(rules[0]))
	}
	if !ours && !sp.Restless && (!isRule || !sp.Extra && !sp.Counter) {
		return out
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(out.Settings, &fields); err != nil {
		panic("BUG: stored settings are no object: " + err.Error())
	}
	if ours && sp.NoRuleType && string(fields["RuleType"]) == `""` {
		delete(fields, "RuleType")
	}
	if ours && sp.NoProtocol && string(fields["Protocols"]) == `"`+hns.AnyProtocol+`"` {
		delete(fields, "Protocols")
	}
	if isRule && sp.Extra {
		fields[extraField] = json.RawMessage("7")
	}
	if isRule && sp.Counter {
		fields[counterField] = encode(o.reads)
	}
	var restless *rand.Rand
	if !ours && sp.Restless {
		restless = o.rng
	}
	out.Settings = joinFields(fields, restless)
	return out
}

// showRule returns a rule of ours in the words of HNS.
func (o *odd) showRule(a hns.ACL) hns.ACL {
	sp := o.Spelling
	for _, field := range []*string{&a.LocalAddresses, &a.RemoteAddresses} {
		*field = eachOf(*field, o.showAddress)
	}
	for _, field := range []*string{&a.LocalPorts, &a.RemotePorts} {
		*field = eachOf(*field, func(port string) string { return sp.StrangePorts + port })
		if sp.PortOrder {
			texts := strings.Split(*field, ",")
			slices.Reverse(texts)
			*field = strings.Join(texts, ",")
		}
	}
	if name, ok := protocolNames[a.Protocols]; ok && sp.ProtocolNames && (a.Protocols != "" || !sp.NoProtocol) {
		a.Protocols = name
	}
	if sp.NoRuleType && a.RuleType == hns.Switch {
		a.RuleType = ""
	}
	if sp.UpperRuleIDs {
		a.ID = strings.ToUpper(a.ID)
	}
	return a
}

// showAddress returns an address, a block or the Id of a set in the words of HNS.
func (o *odd) showAddress(text string) string {
	sp, ok := hns.ParseSpan(text)
	switch {
	case !ok && o.Spelling.UpperSetIDs:
		return strings.ToUpper(text)
	case !ok:
		return text
	case o.Spelling.HostMask && sp.First == sp.Last && !strings.Contains(text, "/"):
		text += "/32"
	}
	return o.Spelling.Strange + text
}

// eachOf changes each text of a list.
func eachOf(field string, change func(string) string) string {
	if field == "" {
		return ""
	}
	texts := strings.Split(field, ",")
	for i, text := range texts {
		texts[i] = change(text)
	}
	return strings.Join(texts, ",")
}

// joinFields returns a JSON object, its keys in order; with chance in any order,
// and with blanks.
func joinFields(fields map[string]json.RawMessage, chance *rand.Rand) json.RawMessage {
	keys := slices.Sorted(maps.Keys(fields))
	blanks := func() string { return "" }
	if chance != nil {
		shuffle(chance, keys)
		blanks = func() string { return strings.Repeat(" ", chance.IntN(3)) }
	}
	var b bytes.Buffer
	b.WriteByte('{')
	for i, key := range keys {
		if i > 0 {
			b.WriteString("," + blanks())
		}
		b.Write(encode(key))
		b.WriteString(":" + blanks())
		b.Write(fields[key])
	}
	b.WriteString(blanks() + "}")
	return b.Bytes()
}

func encode(value any) json.RawMessage {
	out, err := json.Marshal(value)
	if err != nil {
		panic("BUG: it always encodes: " + err.Error())
	}
	return out
}

func shuffle[T any](chance *rand.Rand, list []T) {
	chance.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
}

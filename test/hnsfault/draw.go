package hnsfault

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/winnpm/winnpm/pkg/hns"
)

// What an HNS may answer when it refuses: codes whose words fit, codes that mean
// anything, and codes that nobody has heard of.
var drawnCodes = []uint32{
	codeInvalidPolicy, codeInvalidType, codeInvalidJSON, codeInvalidIP,
	0x803B0015, 0x803B0016, 0x803B002D, 0x803B002F, 0x803B0030, 0x803B0032, 0x803B0033,
	0x80070032, 0x80070057, 0x8007000D, codeFail, 0x8000FFFF, 0x803B0037, 0x803B00A7, 0x8037011F,
}

// brokenCodes are those of a write that came to grief on the way.
var brokenCodes = []uint32{codeFail, 0x8000FFFF, 0x803B0017, 0x803B00A7, 0x800705AA, 0x800706BE, 0x80070102}

// DrawPersonality returns the personality of a seed, always the same one. About
// a third of what can differ does.
func DrawPersonality(seed uint64) Personality {
	d := drawer{rand.New(rand.NewPCG(seed, 0))}
	return Personality{
		Seed:      seed,
		Codes:     d.codes(),
		Refuses:   d.refuses(),
		Spelling:  d.spelling(),
		Endpoints: d.endpoints(),
		Half:      d.chance(brokenCodes),
		Ignored:   d.chance(nil),
		Latency:   d.latency(),
		Foreign:   d.foreign(),
	}
}

// drawer draws.
type drawer struct{ *rand.Rand }

// one says yes once in n times.
func (d drawer) one(n int) bool { return d.IntN(n) == 0 }

// between returns a number from a to b.
func (d drawer) between(a, b int) int { return a + d.IntN(b-a+1) }

func (d drawer) code(from []uint32) uint32 { return from[d.IntN(len(from))] }

func (d drawer) codes() map[Answer]uint32 {
	out := map[Answer]uint32{}
	for a := range answers {
		if !d.one(3) {
			continue
		}
		switch a {
		case SetMissing, NameMissing, EndpointMissing:
			out[a] = d.code([]uint32{0x80070490, codeAfterUnload, 0x80070002, codeFail, 0x803B00A7})
		case EndpointClosed:
			out[a] = d.code([]uint32{0x803B0034, 0x803B0035, codeInvalidEndpoint, codeFail, 0x803B00A7})
		default:
			out[a] = d.code(drawnCodes)
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// refuses leaves room for the few rules of a block: an HNS that does not take these
// cannot be made safe.
func (d drawer) refuses() []Refusal {
	limits := map[Trait][2]int{
		Literals: {1, 50}, NameLength: {20, 120}, NestedMembers: {2, 6}, SetValues: {2, 50},
		SetCount: {10, 60}, ACLCount: {16, 60}, RequestBytes: {4000, 20_000},
	}
	var out []Refusal
	for t := range traits {
		if !d.one(6) {
			continue
		}
		f := Refusal{What: t, Code: d.code(drawnCodes)}
		if l, ok := limits[t]; ok {
			f.N = d.between(l[0], l[1])
		}
		out = append(out, f)
	}
	return out
}

func (d drawer) spelling() Spelling {
	s := Spelling{
		HostMask: d.one(3), PortOrder: d.one(3), ProtocolNames: d.one(5), NoProtocol: d.one(4), NoRuleType: d.one(3),
		UpperSetIDs: d.one(6), UpperRuleIDs: d.one(6), UpperGUIDs: d.one(6),
		Extra: d.one(3), Counter: d.one(4), Shuffled: d.one(3), Restless: d.one(3),
	}
	if d.one(6) {
		s.Strange = []string{"ip:", "v4=", "@"}[d.IntN(3)]
	}
	if d.one(6) {
		s.StrangePorts = []string{"port:", "p", "#"}[d.IntN(3)]
	}
	return s
}

func (d drawer) endpoints() EndpointHabits {
	var h EndpointHabits
	if d.one(3) {
		h.Late = d.between(1, 4)
	}
	if d.one(4) {
		h.Vanish = Chance{P: 0.05 + d.Float64()/4, Times: d.between(1, 5)}
	}
	if d.one(4) {
		h.Twice = d.between(1, 4)
	}
	if d.one(4) {
		h.Unread, h.UnreadFor = d.between(3, 8), d.between(1, 6)
		h.UnreadCode = d.code([]uint32{codeAfterUnload, 0x803B0017, codeFail, 0x803B00A7})
		if d.one(3) {
			h.UnreadFor = -1
		}
	}
	h.Others = d.one(3)
	h.Early = d.one(3)
	return h
}

func (d drawer) chance(codes []uint32) Chance {
	if !d.one(4) {
		return Chance{}
	}
	c := Chance{P: 0.02 + d.Float64()/5, Times: d.between(1, 6)}
	if len(codes) > 0 {
		c.Code = d.code(codes)
	}
	return c
}

func (d drawer) latency() time.Duration {
	if !d.one(4) {
		return 0
	}
	return time.Duration(d.between(1, 20)) * time.Millisecond
}

// foreign draws what a CNI puts on an endpoint. Its priorities are not ours, and
// one number has one action.
func (d drawer) foreign() []hns.EndpointPolicy {
	if !d.one(3) {
		return nil
	}
	out := []hns.EndpointPolicy{}
	add := func(kind, settings string) {
		out = append(out, hns.EndpointPolicy{Type: kind, Settings: []byte(settings)})
	}
	rest := []string{``, `,"RuleType":"Switch"`, `,"Protocols":"256","RuleType":"Switch"`, `,"Protocols":"256","RuleType":"Switch","Scope":0,"Type":"ACL"`}[d.IntN(4)]
	if d.one(2) {
		add(hns.PolicyTypeACL, `{"Action":"Block","Direction":"Out","Priority":200,"Protocols":"6","RemoteAddresses":"168.63.129.16/32","RemotePorts":"80","RuleType":"Switch","Scope":0,"Type":"ACL"}`)
	}
	if !d.one(4) {
		for _, dir := range []hns.Direction{hns.In, hns.Out} {
			add(hns.PolicyTypeACL, fmt.Sprintf(`{"Action":"Allow","Direction":%q,"Priority":65500%s}`, dir, rest))
		}
	}
	for _, other := range []hns.EndpointPolicy{
		{Type: "OutBoundNAT", Settings: []byte(`{"Exceptions":["10.0.0.0/8"]}`)},
		{Type: "SDNRoute", Settings: []byte(`{"DestinationPrefix":"10.0.0.0/16","NeedEncap":true}`)},
		{Type: "ProviderAddress", Settings: []byte(`{"ProviderAddress":"192.168.1.4"}`)},
	} {
		if d.one(2) {
			add(other.Type, string(other.Settings))
		}
	}
	return out
}

var (
	answerNames = [answers]string{"bad set", "bad rule", "set exists", "set missing", "set in use", "name missing", "endpoint missing", "endpoint closed"}
	traitNames  = [traits]string{"port ranges", "port lists", "SCTP", "Host rules", "wide blocks", "literals", "braces", "name length",
		"nested members", "set values", "sets", "rules", "bytes", "others' extra fields"}
)

// String returns the answer in words.
func (a Answer) String() string { return answerNames[a] }

// String returns the refusal as one text.
func (f Refusal) String() string {
	text := traitNames[f.What]
	if f.N > 0 {
		text += fmt.Sprintf(">%d", f.N)
	}
	return text + codeText(f.Code)
}

func codeText(code uint32) string {
	if code == 0 {
		return ""
	}
	return fmt.Sprintf(" (0x%08X)", code)
}

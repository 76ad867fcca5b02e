package torture

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// oddCodes may stand for a refusal: words that nearly fit, and none.
var oddCodes = []uint32{0x803B0030, 0x803B002F, 0x803B002D, 0x803B0016, 0x803B0032, 0x803B0033, 0x80070032, 0x8007000D, 0x80004005}

// character is a personality, and what the assertions have to know of it.
type character struct {
	hnsfault.Personality
	says      string // what was drawn
	harmless  bool   // HNS only spells in its own way
	strange   bool   // in words that only experience explains
	whimsical bool   // it does writes by halves, or not at all, now and then
	broke     uint32 // the code of a write that it did by halves
	blind     string // an endpoint that it never lets be read
}

// drawCharacter draws a personality, one in four of which only spells. About a third of what
// can differ does.
func drawCharacter(t *rapid.T) character {
	seed := rapid.Uint64Range(1, 1<<20).Draw(t, "personality") * 0x9E3779B9 // small ones are drawn often
	rng := rand.New(rand.NewPCG(seed, 0))
	c := character{harmless: rapid.IntRange(0, 3).Draw(t, "only spelling") == 0}
	c.spell(rng, seed)
	if !c.harmless {
		c.refuse(rng)
		c.fail(rng, seed)
	}
	return c
}

func (c *character) say(format string, args ...any) { c.says += fmt.Sprintf(format, args...) + ", " }

// spelling is how HNS shows rules.
type spelling struct {
	address, port string // before each address, before each port
	without       string // a field that is left out of our rules where it says what absence says
	counter       bool   // a number that is another at each read
	restless      bool   // others' policies have other blanks at each read
	reads         int
}

// spell draws how HNS shows what was written.
func (c *character) spell(rng *rand.Rand, seed uint64) {
	pick := func(texts ...string) string { return texts[rng.IntN(len(texts))] }
	sp := &spelling{
		without: pick("", "RuleType", "Protocols"), counter: rng.IntN(3) == 0, restless: rng.IntN(3) == 0,
	}
	switch rng.IntN(6) { // one of them: with both, several rules look alike
	case 0:
		sp.address = pick("ip:", "v4=", "@")
	case 1:
		sp.port = pick("port:", "p", "#")
	}
	show, late := hnsfault.Shuffle(seed), hnsfault.Late(0)
	if rng.IntN(2) == 0 {
		show = func(string, *hns.Result) {}
	}
	if n := rng.IntN(4); !c.harmless && rng.IntN(3) == 0 {
		late = hnsfault.Late(n)
		c.say("endpoints are enumerated %d times late", n)
	}
	c.Show = func(op string, out *hns.Result) { late(op, out); show(op, out); sp.show(op, out) }
	c.strange = sp.address+sp.port != ""
	c.say("%+v", *sp)
}

// show is a hnsfault.Personality.Show.
func (sp *spelling) show(_ string, out *hns.Result) {
	sp.reads++
	for _, s := range out.Network.Sets {
		for i, v := range s.Values {
			s.Values[i] = before(sp.address, v)
		}
	}
	for i, p := range out.Endpoint.Policies {
		fields := map[string]any{}
		if json.Unmarshal(p.Settings, &fields) != nil {
			continue
		}
		a, err := p.ACL()
		if err == nil && a.Ours() {
			for key, prefix := range map[string]string{"LocalAddresses": sp.address, "RemoteAddresses": sp.address, "LocalPorts": sp.port, "RemotePorts": sp.port} {
				if text, _ := fields[key].(string); text != "" {
					fields[key] = before(prefix, text)
				}
			}
			if is := fields[sp.without]; is == hns.AnyProtocol || is == string(hns.Switch) {
				delete(fields, sp.without)
			}
		}
		if err == nil && sp.counter {
			fields["HitCount"] = sp.reads
		}
		settings, _ := json.Marshal(fields)
		if sp.restless && !a.Ours() {
			settings, _ = json.MarshalIndent(fields, "", strings.Repeat(" ", sp.reads%5))
		}
		out.Endpoint.Policies[i].Settings = settings
	}
}

// before puts a word before each address or port of a list.
func before(word, list string) string {
	texts := strings.Split(list, ",")
	for i, text := range texts {
		if !strings.HasPrefix(text, hns.SetIDPrefix) {
			texts[i] = word + text
		}
	}
	return strings.Join(texts, ",")
}

// refuse draws what HNS rejects besides what every HNS does, and its codes. It leaves room for
// the few rules of a block: an HNS that does not take these cannot be made safe.
func (c *character) refuse(rng *rand.Rand) {
	var traits []func(hnssim.Call) bool
	trait := func(name string, least, most int, rejects func(c hnssim.Call, n int) bool) {
		if n := least + rng.IntN(most-least+1); rng.IntN(6) == 0 {
			c.say("rejects %s (%d)", name, n)
			traits = append(traits, func(c hnssim.Call) bool { return rejects(c, n) })
		}
	}
	rule := func(rejects func(a hns.ACL, n int) bool) func(hnssim.Call, int) bool {
		return func(c hnssim.Call, n int) bool {
			return slices.ContainsFunc(hnsfault.Rules(c), func(a hns.ACL) bool { return a.Ours() && rejects(a, n) })
		}
	}
	set := func(rejects func(s hns.SetPolicy, n int) bool) func(hnssim.Call, int) bool {
		return func(c hnssim.Call, n int) bool {
			return c.Op != hns.OpSets(hns.Remove) && slices.ContainsFunc(c.Sets, func(s hns.SetPolicy) bool { return rejects(s, n) })
		}
	}
	trait("port ranges", 0, 0, rule(func(a hns.ACL, _ int) bool { return strings.Contains(a.LocalPorts+a.RemotePorts, "-") }))
	trait("port lists", 0, 0, rule(func(a hns.ACL, _ int) bool { return strings.Contains(a.LocalPorts+a.RemotePorts, ",") }))
	trait("SCTP", 0, 0, rule(func(a hns.ACL, _ int) bool { return a.Protocols == "132" }))
	trait("literals", 1, 50, rule(func(a hns.ACL, n int) bool { return strings.Count(a.RemoteAddresses, ",") >= n && len(a.SetIDs()) == 0 }))
	trait("long names", 20, 120, set(func(s hns.SetPolicy, n int) bool { return len(s.Name) > n }))
	trait("many members", 2, 6, set(func(s hns.SetPolicy, n int) bool { return s.Type == hns.NestedIPSet && len(s.Values) > n }))
	trait("many values", 2, 50, set(func(s hns.SetPolicy, n int) bool { return s.Type == hns.IPSet && len(s.Values) > n }))
	trait("undocumented fields", 0, 0, func(c hnssim.Call, _ int) bool { return hnsfault.OnlyDocumented(c) != 0 })
	code := oddCodes[rng.IntN(len(oddCodes))]
	c.Refuse = func(c hnssim.Call) uint32 {
		if slices.ContainsFunc(traits, func(rejects func(hnssim.Call) bool) bool { return rejects(c) }) {
			return code
		}
		return 0
	}
	if rng.IntN(2) > 0 {
		return
	}
	missing := []uint32{0x80070490, 0x803B0031, 0x80070002, 0x80004005, 0x803B00A7}[rng.IntN(5)]
	c.say("answers with 0x%08x and 0x%08x", code, missing)
	c.Code = func(op *hns.OpError) uint32 {
		switch {
		case errors.Is(op, hns.ErrNotFound):
			return missing
		case op.Kind == hns.KindEndpoint:
			return 0
		}
		return code
	}
}

// fail draws what goes wrong now and then.
func (c *character) fail(rng *rand.Rand, seed uint64) {
	reads := func(c hnssim.Call) bool { return c.Op == hns.OpEndpointGet }
	c.broke = []uint32{0x80004005, 0x8000FFFF, 0x803B0017, 0x800706BE, 0x80070102}[rng.IntN(5)]
	var chances []hnsfault.Fault
	for i, f := range []hnsfault.Fault{{Mode: hnsfault.Half, Code: c.broke}, {Mode: hnsfault.Ignore}, {Err: hns.ErrNotFound}, {Code: 0x803B0031}} {
		f.On, f.P, f.Times = reads, 0.02+rng.Float64()/5, 1+rng.IntN(6)
		if rng.IntN(4) > 0 {
			continue
		}
		if i < 2 {
			f.On, c.whimsical = func(c hnssim.Call) bool { return !hnsfault.ReadsOnly(c.Op) }, true
		}
		chances = append(chances, f)
	}
	if rng.IntN(8) == 0 {
		c.blind = fmt.Sprintf("ep-%d", 1+rng.IntN(3))
		chances = append(chances, hnsfault.Fault{On: func(o hnssim.Call) bool { return reads(o) && o.Target == c.blind }, P: 1, Times: 1 << 30, Code: 0x803B0017})
	}
	c.Early = rng.IntN(3) == 0
	c.Fail = hnsfault.Chances(seed, chances...)
	c.say("%+v, blind for %s, early %v", chances, cmp.Or(c.blind, "none"), c.Early)
}

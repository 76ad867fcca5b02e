// Package likeness makes the simulator answer like the HNS that a doctor asked: the records of
// a zip become a personality, and what the simulator answers otherwise all the same is a list.
package likeness

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/doctor"
	"github.com/winnpm/winnpm/pkg/hns/hnssim"
)

// Of returns the personality of the HNS that a result is about. What no personality can have,
// such as something that every simulator refuses, is not in it: see Differences.
func Of(r doctor.Result) hnssim.Personality {
	l := look{r.Records}
	return hnssim.Personality{Codes: l.codes(), Refuses: l.refuses(), Spelling: l.spelling()}
}

// look finds records.
type look struct{ records []*doctor.Record }

// asked returns the call of an export by which a probe asked for something; nil: there is none.
func (l look) asked(export, what string) *doctor.Record {
	for _, r := range l.records {
		if r.Export == export && r.Asks == what {
			return r
		}
	}
	return nil
}

// refusal returns the code with which a call was refused; 0: it was not.
func (l look) refusal(export, what string) uint32 {
	if r := l.asked(export, what); r != nil && r.Refused() {
		return r.Code()
	}
	return 0
}

// Exports that write.
const (
	sets  = "HcnModifyNetwork"
	rules = "HcnModifyEndpoint"
)

// codes are those of what every HNS refuses, where they are not the simulator's own.
func (l look) codes() map[hnssim.Answer]uint32 {
	var out map[hnssim.Answer]uint32
	for answer, from := range map[hnssim.Answer]struct {
		export, what string
		usual        uint32
	}{
		hnssim.BadSet:         {sets, "a value that is no address", 0x803b000d},
		hnssim.BadRule:        {rules, "a word for an address", 0x803b000d},
		hnssim.SetExists:      {sets, "add of a set that is there", 0x803b0012},
		hnssim.SetMissing:     {sets, "remove of a set that is not there", 0x803b0008},
		hnssim.SetInUse:       {sets, "remove of a member", 0x803b002c},
		hnssim.NameMissing:    {rules, "a set that is not there", 0x803b0008},
		hnssim.EndpointClosed: {rules, "a rule on it", 0x803b000c},
	} {
		if code := l.refusal(from.export, from.what); code != 0 && code != from.usual {
			if out == nil {
				out = map[hnssim.Answer]uint32{}
			}
			out[answer] = code
		}
	}
	return out
}

// refuses is what this HNS refuses besides, in the order of the traits.
func (l look) refuses() []hnssim.Refusal {
	var out []hnssim.Refusal
	for _, from := range []struct {
		trait        hnssim.Trait
		export, what string
	}{
		{hnssim.PortRanges, rules, "a range of ports"},
		{hnssim.PortLists, rules, "a list of ports"},
		{hnssim.SCTP, rules, "SCTP"},
		{hnssim.HostRules, rules, "a host rule"},
		{hnssim.WideBlocks, rules, "half of the world"},
		{hnssim.Braces, sets, "signs in a name"},
		{hnssim.ForeignExtras, rules, "as HNS shows it"},
	} {
		if code := l.refusal(from.export, from.what); code != 0 {
			out = append(out, hnssim.Refusal{What: from.trait, Code: code})
		}
	}
	out = append(out, l.limits()...)
	longest := 0
	for _, r := range l.records {
		var n int
		if _, err := fmt.Sscanf(r.Asks, "a name of %d characters", &n); err != nil || r.Export != sets {
			continue
		}
		if r.Refused() {
			return append(out, hnssim.Refusal{What: hnssim.NameLength, N: longest, Code: r.Code()})
		}
		longest = n
	}
	return out
}

// spelling is how this HNS shows what it took.
func (l look) spelling() hnssim.Spelling {
	set, rule := l.shown("sets: a set"), l.shown("rules: a rule with addresses")
	return hnssim.Spelling{
		HostMask:      strings.Contains(text(set, "Values"), "/32") && strings.Contains(text(rule, "RemoteAddresses"), "/32"),
		UpperSetIDs:   upper(text(set, "Id")),
		UpperRuleIDs:  upper(text(rule, "Id")),
		PortOrder:     text(rule, "LocalPorts") == "80,443", // sent the other way round
		ProtocolNames: text(rule, "Protocols") == "TCP",
		NoRuleType:    len(rule) > 0 && rule["RuleType"] == nil,
		Extra:         slices.ContainsFunc(keys(rule), func(key string) bool { return !known.MatchString(key) }),
	}
}

// known are the fields of a rule, and those that HNS is known to add.
var known = regexp.MustCompile(`^(Id|Action|Direction|Priority|Protocols|RuleType|Scope|Type|(Local|Remote)(Addresses|Ports))$`)

// shown returns the fields of the one set or rule of WinNPM's prefixes that is shown after the
// first write of a probe; nil: there is none.
func (l look) shown(probe string) map[string]json.RawMessage {
	for _, r := range l.records {
		if r.Probe != probe || !strings.HasPrefix(r.Export, "HcnQuery") {
			continue
		}
		var object struct {
			Policies []struct {
				Settings map[string]json.RawMessage
			}
		}
		if json.Unmarshal([]byte(r.Output), &object) != nil {
			return nil
		}
		for _, p := range object.Policies {
			if strings.HasPrefix(strings.ToLower(text(p.Settings, "Id")), "azure-") {
				return p.Settings
			}
		}
		return nil
	}
	return nil
}

func keys(fields map[string]json.RawMessage) []string {
	var out []string
	for key := range fields {
		out = append(out, key)
	}
	return out
}

func text(fields map[string]json.RawMessage, key string) string {
	var out string
	if json.Unmarshal(fields[key], &out) != nil {
		return ""
	}
	return out
}

func upper(s string) bool { return s != "" && s == strings.ToUpper(s) }

// Differences says what a node answers otherwise than another one, such as a simulator of its
// personality: codes of calls, in the order in which the probes made them.
func Differences(node, other doctor.Result) []string {
	var out []string
	said := map[string]string{}
	for _, r := range other.Records {
		said[key(r)] = r.Said()
	}
	for _, r := range node.Records {
		if is, ok := said[key(r)]; ok && r.Asks != "" && is != r.Said() {
			out = append(out, fmt.Sprintf("%s: %s: %s, and there %s (record %d)", r.Probe, r.Asks, r.Said(), is, r.N))
		}
	}
	return append(out, otherFates(node, other)...)
}

// key is what was asked.
func key(r *doctor.Record) string {
	return strings.Join(append([]string{r.Probe, r.Asks, r.Export, r.ID}, r.Request...), "\x00")
}

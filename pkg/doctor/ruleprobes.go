package doctor

import (
	"fmt"
	"strings"
)

// Ids of the rules of the probes, spelled as those of WinNPM.
const (
	ruleID  = "azure-acl-doctor.web"
	otherID = "azure-acl-doctor.other"
)

// Fields of plain rules.
const (
	inAllow  = `"Action":"Allow","Direction":"In"`
	switched = `,"RuleType":"Switch","Priority":222`
	tcp      = `,"Protocols":"6"`
)

// rule is a rule of the doctor's: allowed in, at the switch, with some more fields.
func rule(more string) string { return aclPolicy(ruleID, inAllow+switched+more) }

// foreign is a rule as a CNI plugin makes it.
const foreign = `{"Type":"ACL","Settings":{"Action":"Allow","Direction":"Out","Priority":65500,"RuleType":"Switch","Protocols":"256"}}`

// complement is everything but 10.0.0.0/8: what `except` becomes in a rule.
func complement() string {
	return "0.0.0.0/5,8.0.0.0/7,11.0.0.0/8,12.0.0.0/6,16.0.0.0/4,32.0.0.0/3,64.0.0.0/2,128.0.0.0/1"
}

// ruleProbes ask about rules, each on an attached endpoint without any.
func ruleProbes() []probe {
	there := []step{add(rule(""))}
	return append([]probe{
		{name: "a rule with addresses", settles: "W6", step: add(rule(tcp + `,"RemoteAddresses":"10.9.0.1,10.9.1.0/24,10.9.0.2","LocalPorts":"443,80"`)), want: taken, look: showsRule},
		{name: "a rule out", settles: "W6", step: add(aclPolicy(ruleID, `"Action":"Block","Direction":"Out","RemoteAddresses":"10.9.0.1","RemotePorts":"53","Protocols":"17"`+switched)), want: taken},
		{name: "a rule for everything", settles: "W1", step: add(rule("")), want: taken},
		{name: "the first and the last priority", settles: "W1", step: add(aclPolicy(ruleID, inAllow+`,"RuleType":"Switch","Priority":1`), aclPolicy(otherID, inAllow+`,"RuleType":"Switch","Priority":65535`)), want: taken},
		{name: "a list of ports", settles: "A9", step: add(rule(tcp + `,"LocalPorts":"80,443,8080"`)), want: taken},
		{name: "a range of ports", settles: "A9", step: add(rule(tcp + `,"LocalPorts":"1000-2000"`)), want: taken},
		{name: "a list of ports and ranges", settles: "A9", step: add(rule(tcp + `,"LocalPorts":"80,443,1000-2000"`)), want: taken},
		{name: "all ports", settles: "A9", step: add(rule(tcp + `,"LocalPorts":"1-65535"`)), want: taken},
		{name: "SCTP", settles: "A10", step: add(rule(`,"Protocols":"132"`)), want: taken},
		{name: "SCTP with ports", settles: "A10", step: add(rule(`,"Protocols":"132","LocalPorts":"9899"`)), want: taken},
		{name: "ICMP", settles: "W1", step: add(rule(`,"Protocols":"1"`)), want: taken},
		{name: "the whole world", settles: "A7", step: add(rule(`,"RemoteAddresses":"0.0.0.0/0"`)), want: taken},
		{name: "all of IPv6", settles: "A29", step: add(aclPolicy(ruleID, `"Action":"Block","Direction":"In"`+switched+`,"RemoteAddresses":"::/0"`)), want: taken},
		{name: "half of the world", settles: "A7", step: add(rule(`,"RemoteAddresses":"128.0.0.0/1"`)), want: taken},
		{name: "multicast", settles: "A7", step: add(rule(`,"RemoteAddresses":"224.0.0.0/3"`)), want: taken},
		{name: "the complement of a block", settles: "A7", step: add(rule(`,"RemoteAddresses":"` + complement() + `"`)), want: taken},
		{name: "every length of a block", settles: "A7", step: add(rule(`,"RemoteAddresses":"` + everyLength() + `"`)), want: taken},
		{name: "4000 addresses", settles: "A8", step: add(rule(`,"RemoteAddresses":"` + manyAddresses(4000) + `"`)), want: taken},
		{name: "a host rule", settles: "A16", step: add(aclPolicy(ruleID, inAllow+`,"RuleType":"Host"`)), want: taken},
		{name: "a host rule with a priority", settles: "A16", step: add(aclPolicy(ruleID, inAllow+`,"RuleType":"Host","Priority":222`)), want: refused},
		{name: "a rule without a type", settles: "A15", step: add(aclPolicy(ruleID, inAllow+`,"Priority":222`)), want: done, look: showsType},
		{name: "a long Id with dots", settles: "A25", step: add(aclPolicy("azure-acl-"+strings.Repeat("namespace.", 12)+strings.Repeat("policy", 20), inAllow+switched)), want: taken},

		{name: "add to what is there", settles: "A20", before: there, step: add(aclPolicy(otherID, inAllow+switched)), want: taken, look: counts("A20", 1)},
		{name: "add of the same rule", settles: "A20", before: there, step: add(rule("")), want: taken, look: counts("A20", 2)},
		{name: "update replaces", settles: "A17", before: []step{add(rule(""))}, step: update(aclPolicy(otherID, inAllow+switched)), want: taken, look: counts("A17", 0)},
		{name: "update takes others along", settles: "A17", before: []step{update(foreign)}, step: update(rule("")), want: taken, look: only("A17", 1)},
		{name: "update with nothing", settles: "A18", before: there, step: update(), want: done, look: only("A18", 0)},
		{name: "order of rules", step: update(aclPolicy("azure-acl-c", inAllow+switched), aclPolicy("azure-acl-a", inAllow+switched), aclPolicy("azure-acl-b", inAllow+switched)), want: taken},
		{name: "one bad rule among good ones", step: add(rule(""), aclPolicy(otherID, inAllow+switched+`,"RemoteAddresses":"nonsense"`)), want: refused, look: counts("", 0)},
		{name: "remove of a rule", before: there, step: remove(rule("")), want: anything},
		{name: "remove of a rule by its Id", before: there, step: remove(`{"Type":"ACL","Settings":{"Id":"` + ruleID + `"}}`), want: anything},
		{name: "a tier of rules", settles: "A27", step: update(tier), want: anything},
		{name: "a NAT policy beside a rule", step: update(rule(""), `{"Type":"OutBoundNAT","Settings":{"Exceptions":["10.0.0.0/8"]}}`), want: anything},
	}, refusedRules()...)
}

// tier is a list of rules before all others, which nobody is known to write.
const tier = `{"Type":"TierAcl","Settings":{"Name":"winnpm-doctor","Direction":"In","Order":1001,"TierAclRules":[` +
	`{"Id":"` + ruleID + `","Protocols":"6","TierAclRuleAction":"Pass","LocalPorts":"80","Priority":2000}]}}`

// refusedRules are rules that HNS is thought to refuse.
func refusedRules() []probe {
	bad := func(name, settles, policy string) probe {
		return probe{name: name, settles: settles, step: add(policy), want: refused}
	}
	any := func(name, policy string) probe { return probe{name: name, step: add(policy), want: anything} }
	return []probe{
		bad("two protocols in a rule", "A12", rule(`,"Protocols":"6,17"`)),
		bad("ports without a protocol", "A13", rule(`,"LocalPorts":"80"`)),
		bad("ports of ICMP", "A13", rule(`,"Protocols":"1","LocalPorts":"80"`)),
		bad("no port", "", rule(tcp+`,"LocalPorts":"http"`)),
		bad("a range that is none", "", rule(tcp+`,"LocalPorts":"2000-1000"`)),
		bad("no protocol number", "", rule(`,"Protocols":"300"`)),
		bad("no action", "", aclPolicy(ruleID, `"Action":"Reject","Direction":"In"`+switched)),
		bad("no direction", "", aclPolicy(ruleID, `"Action":"Allow","Direction":"Both"`+switched)),
		bad("no type of rule", "", aclPolicy(ruleID, inAllow+`,"RuleType":"Router","Priority":222`)),
		bad("a rule at the switch without a priority", "", aclPolicy(ruleID, inAllow+`,"RuleType":"Switch"`)),
		bad("a word for an address", "", rule(`,"RemoteAddresses":"Any"`)),
		bad("an IPv6 address in a rule", "", rule(`,"RemoteAddresses":"fd00::1"`)),
		bad("an IPv6 block in a rule", "", rule(`,"RemoteAddresses":"fd00::/64"`)),
		bad("more than 4000 addresses", "", rule(`,"RemoteAddresses":"`+manyAddresses(4001)+`"`)),
		{name: "a policy without a type", step: update(`{"Type":"","Settings":{"Id":"` + ruleID + `"}}`), want: refused},
		{name: "settings that are no object", step: update(`{"Type":"OutBoundNAT","Settings":"none"}`), want: refused},
		bad("a rule that is no object", "", `{"Type":"ACL","Settings":"none"}`),
		any("a priority that is a text", aclPolicy(ruleID, inAllow+`,"RuleType":"Switch","Priority":"222"`)),
		{name: "a request without rules", step: add(), want: refused},
		any("blanks between ports", rule(tcp+`,"LocalPorts":"80, 443"`)),
		any("a protocol as a word", rule(`,"Protocols":"TCP"`)),
		any("an action in small letters", aclPolicy(ruleID, `"Action":"allow","Direction":"in"`+switched)),
		any("a protocol of all, as HNS shows it", rule(`,"Protocols":"256"`)),
		any("an address with its length", rule(`,"RemoteAddresses":"10.9.0.1/32"`)),
		any("a block with bits beyond its length", rule(`,"RemoteAddresses":"10.9.0.1/16"`)),
		any("an unknown field in a rule", rule(`,"Weight":7`)),
		any("an Id spelled ID", `{"Type":"ACL","Settings":{"ID":"`+ruleID+`",`+inAllow+switched+`}}`),
	}
}

// everyLength is a block of each length, from one bit to a host.
func everyLength() string {
	var out []string
	for bits := 1; bits <= 32; bits++ {
		out = append(out, fmt.Sprintf("128.0.0.0/%d", bits))
	}
	return strings.Join(out, ",")
}

// manyAddresses is a list of so many addresses.
func manyAddresses(n int) string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("10.9.%d.%d", i/250, 1+i%250)
	}
	return strings.Join(out, ",")
}

// setRuleProbes ask about rules with sets, which have to be there.
func setRuleProbes() []probe {
	return []probe{
		{name: "a rule with a set", settles: "W1", step: add(rule(`,"LocalAddresses":"` + setA + `"`)), want: taken},
		{name: "a rule with two sets", settles: "W1", step: add(rule(`,"LocalAddresses":"` + setA + "," + setB + `"`)), want: taken},
		{name: "a rule with a nested set", settles: "S7", step: add(rule(`,"LocalAddresses":"` + setList + `"`)), want: taken},
		{name: "a rule with a set on each side", settles: "W1", step: add(rule(`,"LocalAddresses":"` + setA + `","RemoteAddresses":"` + setB + `"`)), want: taken},
		{name: "a set and an address in one field", settles: "A6", step: add(rule(`,"LocalAddresses":"` + setA + `,10.9.0.1"`)), want: refused},
		{name: "a set that is not there", settles: "A24", step: add(rule(`,"LocalAddresses":"` + setGone + `"`)), want: absent},
	}
}

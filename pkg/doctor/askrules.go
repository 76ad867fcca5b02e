package doctor

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// askRules makes the probes of rules and of endpoints.
func (e *exam) askRules(kind string) {
	if !e.begin("rules on " + kind) {
		return
	}
	first := e.modify("a rule at all", endpoint, ownPod, request("Add", rule("")))
	e.clearRules()
	if !first.ok() && kind == natNetwork {
		e.find("W1", Unknown, "an endpoint of a NAT network takes no rules ("+first.said()+"): only --l2bridge can tell", first)
		return
	}
	e.probeRules(ruleProbes())
	e.foreignBack()
	e.withSets()
	e.otherEndpoints()
}

// probeRules makes probes of rules.
func (e *exam) probeRules(probes []probe) {
	for _, p := range probes {
		if !e.begin("rules: " + p.name) {
			return
		}
		if e.prepare(endpoint, ownPod, p) {
			r := e.modify(p.name, endpoint, ownPod, p.request())
			shown, ok := e.look(endpoint, ownPod)
			otherwise := ""
			if ok && r.ok() && p.want == taken {
				otherwise = e.aboutProbe(p, notAsSent(p, shown.Policies), shown.record)
			}
			e.judge(p, r, otherwise)
			if p.look != nil && ok && (r.ok() || p.want == refused) {
				p.look(e, p, shown, ok)
			}
			e.older("", "/endpoints/"+ownPod)
		}
		e.clearRules()
	}
}

// request is the step on the wire. An Update with nothing has no list at all, as WinNPM
// and hcsshim send it.
func (s step) request() string {
	if s.policies == "" {
		return `{"ResourceType":"Policy","RequestType":"` + s.verb + `","Settings":{}}`
	}
	return request(s.verb, s.policies)
}

// clearRules takes every policy off the doctor's endpoint. Where HNS does not do that, the
// endpoint is made anew.
func (e *exam) clearRules() {
	e.modify("", endpoint, ownPod, update().request())
	if shown, ok := e.look(endpoint, ownPod); ok && len(shown.rules()) == 0 || e.stopped() {
		return
	}
	e.call("", "HcnDeleteEndpoint", Arguments{ID: ownPod})
	e.makePod()
}

// withSets makes the probes of rules that name sets.
func (e *exam) withSets() {
	if !e.begin("rules: sets for them") {
		return
	}
	for _, s := range []step{add(leafOf(setA, twoAddresses), leafOf(setB, "10.9.0.3")), add(listOf(setList, setA))} {
		if r := e.modify("sets to name", network, ownID, s.request()); !r.ok() {
			e.find("A24", Unknown, "no set can be made: "+r.said(), r)
			e.dropSets()
			return
		}
	}
	e.probeRules(setRuleProbes())
	if e.begin("rules: remove of a set that a rule names") {
		e.modify("what it needs", endpoint, ownPod, request("Add", rule(`,"LocalAddresses":"`+setB+`"`)))
		p := probe{settles: "S12", step: remove(leafOf(setB, "10.9.0.3")), want: inUse}
		e.judge(p, e.modify("remove of a set that a rule names", network, ownID, p.request()), "")
		e.clearRules()
	}
	e.dropSets()
}

// foreignBack sends the rule of another owner back, as HNS shows it and cut to what a rule
// is made of.
func (e *exam) foreignBack() {
	if !e.begin("rules: those of others") {
		return
	}
	defer e.clearRules()
	made := e.modify("a rule as a CNI plugin makes it", endpoint, ownPod, request("Update", foreign))
	shown, ok := e.look(endpoint, ownPod)
	if !made.ok() || !ok || len(shown.rules()) != 1 {
		e.find("W3", Unknown, "it cannot be had: "+made.said(), made)
		return
	}
	theirs := shown.rules()[0]
	whole, err := json.Marshal(theirs)
	if err != nil {
		panic("BUG: what was decoded encodes: " + err.Error())
	}
	raw := e.modify("as HNS shows it", endpoint, ownPod, request("Update", rule("")+","+string(whole)))
	after, _ := e.look(endpoint, ownPod)
	same := slices.ContainsFunc(after.Policies, func(p shownPolicy) bool {
		return len(differs(theirs.fields(), p.fields())) == 0
	})
	cut := e.modify("cut to ten fields", endpoint, ownPod, request("Update", rule("")+","+cutToKnown(theirs)))
	why := fmt.Sprintf("as shown: %s, and it is shown as before: %v; cut: %s", raw.said(), same, cut.said())
	e.holds("W3", raw.ok() && same, why, raw, cut)
}

// ruleKeys are the fields that a rule is made of.
var ruleKeys = []string{
	"Id", "Protocols", "Action", "Direction", "LocalAddresses", "RemoteAddresses", "LocalPorts", "RemotePorts", "RuleType", "Priority",
}

// cutToKnown is a rule with what it is made of, as JSON.
func cutToKnown(p shownPolicy) string {
	var fields []string
	for _, key := range ruleKeys {
		if value, ok := p.fields()[key]; ok {
			fields = append(fields, quoted(key)+":"+string(value))
		}
	}
	return `{"Type":"ACL","Settings":{` + strings.Join(fields, ",") + `}}`
}

// showsRule looks at how a rule of the doctor's is shown.
func showsRule(e *exam, _ probe, shown found, _ bool) {
	rules := shown.acls(ruleID)
	e.holds("W5", len(rules) == 1 && text(rules[0], "Id") == ruleID, fmt.Sprintf("%d rules are shown with the Id, in whatever case", len(rules)), shown.record)
	if len(rules) != 1 {
		return
	}
	_, scope := rules[0]["Scope"]
	_, kind := rules[0]["Type"]
	e.holds("W4", scope && kind, fmt.Sprintf("Scope is shown: %v, Type: %v", scope, kind), shown.record)
	number := json.Unmarshal(rules[0]["Priority"], new(uint16)) == nil
	e.holds("W8", number, "Priority is shown as "+string(rules[0]["Priority"]), shown.record)
}

// showsType looks at which type a rule without one is shown with.
func showsType(e *exam, _ probe, shown found, _ bool) {
	rules := shown.acls(ruleID)
	if len(rules) != 1 {
		return
	}
	switch kind := text(rules[0], "RuleType"); kind {
	case "":
		e.find("A15", Unknown, "it is shown without one", shown.record)
	default:
		e.holds("A15", kind == "Switch", "it is shown as "+kind, shown.record)
	}
}

// counts is a look at how often the probes' rule is shown.
func counts(assumption string, n int) func(*exam, probe, found, bool) {
	return func(e *exam, _ probe, shown found, _ bool) {
		if all := shown.rules(); len(all) > 0 && !slices.ContainsFunc(all, func(p shownPolicy) bool { return text(p.fields(), "Id") != "" }) {
			e.find(assumption, Unknown, "rules are shown without Ids", shown.record)
			return
		}
		are := len(shown.acls(ruleID))
		e.holds(assumption, are == n, fmt.Sprintf("the rule is there %d times", are), shown.record)
	}
}

// only is a look at how many rules are shown.
func only(assumption string, n int) func(*exam, probe, found, bool) {
	return func(e *exam, _ probe, shown found, _ bool) {
		e.holds(assumption, len(shown.rules()) == n, fmt.Sprintf("%d rules are there", len(shown.rules())), shown.record)
	}
}

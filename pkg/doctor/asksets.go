package doctor

import "fmt"

// keeps is a look whether a set is as it was.
func keeps(policy string) func(*exam, probe, found, bool) {
	return func(e *exam, p probe, shown found, ok bool) {
		if ok {
			p.policies = policy
			otherwise := e.aboutProbe(p, notAsSent(p, shown.Policies), shown.record)
			e.holds(p.settles, otherwise == "", or(otherwise, "another set, or the old content, is as it was"), shown.record)
		}
	}
}

// lacks is a look whether a set is not there.
func lacks(assumption, id string) func(*exam, probe, found, bool) {
	return func(e *exam, _ probe, shown found, ok bool) {
		if ok {
			_, there := shown.sets()[id]
			e.holds(assumption, !there, fmt.Sprintf("the set is there: %v", there), shown.record)
		}
	}
}

// seesNested says which HNS has nested sets.
func seesNested(e *exam, _ probe, shown found, ok bool) {
	_, there := shown.sets()[setList]
	switch {
	case !ok || e.major == 0:
		e.find("S8", Unknown, "nobody knows which HNS this is", shown.record)
	case e.major < 15 || !there:
		e.holds("S8", there, fmt.Sprintf("HNS %d shows a nested set: %v", e.major, there), shown.record)
	default:
		e.find("S8", Unknown, fmt.Sprintf("HNS %d has them, as its documentation says", e.major), shown.record)
	}
}

// askSets makes the probes of sets.
func (e *exam) askSets(kind string) {
	if !e.begin("sets of " + kind) {
		return
	}
	first := e.modify("a set at all", network, ownID, request("Add", leafOf(setA, twoAddresses)))
	e.dropSets()
	if !first.ok() && kind == natNetwork {
		e.find("W1", Unknown, "a NAT network takes no sets ("+first.said()+"): only --l2bridge can tell", first)
		return
	}
	for _, p := range setProbes() {
		if !e.begin("sets: " + p.name) {
			return
		}
		if e.prepare(network, ownID, p) {
			r := e.modify(p.name, network, ownID, p.request())
			shown, ok := e.look(network, ownID)
			otherwise := ""
			if ok && r.ok() && p.want == taken {
				otherwise = e.aboutProbe(p, notAsSent(p, shown.Policies), shown.record)
			}
			e.judge(p, r, otherwise)
			if p.look != nil {
				p.look(e, p, shown, ok)
			}
			e.older("", "/networks/"+ownID)
		}
		e.dropSets()
	}
}

// prepare makes what a probe needs; false: that cannot be had.
func (e *exam) prepare(kind, id string, p probe) bool {
	for _, s := range p.before {
		if r := e.modify("what it needs", kind, id, s.request()); !r.ok() {
			e.find(p.settles, Unknown, "what it needs is refused: "+r.said(), r)
			return false
		}
	}
	return true
}

// dropSets removes every set of the doctor's own network, nested ones first.
func (e *exam) dropSets() {
	shown, ok := e.look(network, ownID)
	if !ok {
		return
	}
	for _, kind := range []string{nested, leaf} {
		for range 2 { // a nested set may hold another one
			for _, p := range shown.Policies {
				if f := p.fields(); p.Type == "SetPolicy" && (text(f, "PolicyType") == nested) == (kind == nested) {
					e.modify("", network, ownID, request("Remove", setPolicy(text(f, "Id"), text(f, "Name"), text(f, "PolicyType"), text(f, "Values"))))
				}
			}
			if shown, ok = e.look(network, ownID); !ok || len(shown.sets()) == 0 {
				return
			}
		}
	}
}

package doctor

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
)

// mostRead is how many objects of a kind are read: whoever has more has seen enough.
const mostRead = 500

// readOnly is phase 0: it lists and reads what is there, and writes nothing.
func (e *exam) readOnly(node Node) {
	e.version()
	networks := e.readAll("networks", network)
	endpoints := e.readAll("endpoints", endpoint)
	e.filters(networks, endpoints)
	e.states(networks, endpoints)
	e.foreignRules(endpoints)
	e.otherTiers(networks, endpoints)
	e.keys(node)
	e.calls()
}

func (e *exam) version() {
	e.probe = "version"
	r := e.older("the version of HNS", "/globals/version")
	var answer struct {
		Success bool
		Output  struct{ Major, Minor int }
	}
	err := json.Unmarshal([]byte(r.Output), &answer)
	if !r.ok() || err != nil || !answer.Success {
		verdict := Refuted
		if r.denied() {
			verdict = Unknown
		}
		e.find("W12", verdict, "it does not: "+r.said(), r)
		return
	}
	v := answer.Output
	e.major = v.Major
	e.find("W12", Held, fmt.Sprintf("HNS %d.%d", v.Major, v.Minor), r)
}

// found is an object that was read.
type found struct {
	object
	record *Record
}

// readAll lists and reads all objects of a kind, in HCN's view and in the older one.
func (e *exam) readAll(probe, kind string) []found {
	e.probe = probe
	ids, list := e.enumerate("all "+probe, kind, "")
	e.older("the same in the older view", "/"+probe+"/")
	if !list.ok() {
		e.find("W9", Unknown, "no list of "+probe+": "+list.said(), list)
		return nil
	}
	var all []found
	var unread []*Record
	for _, id := range ids[:min(len(ids), mostRead)] {
		r := e.read("", kind, id)
		if o, ok := r.shown(); ok {
			all = append(all, found{o, r})
		} else if !missing(r) { // it may have gone meanwhile
			unread = append(unread, r)
		}
	}
	e.holds("W9", len(all) > 0 || len(ids) == 0, fmt.Sprintf("%d of %d %s were read", len(all), len(ids), probe), list)
	if kind != endpoint {
		return all
	}
	switch {
	case len(unread) > 0:
		e.find("E4", Refuted, fmt.Sprintf("%d of %d cannot: %s", len(unread), len(ids), unread[0].said()), unread...)
	case len(all) == 0:
		e.find("E4", Unknown, "this node has no endpoint", list)
	default:
		e.find("E4", Held, fmt.Sprintf("all %d", len(all)), list)
	}
	return all
}

// filters compares what filtered lists have with what the reads show.
func (e *exam) filters(networks, endpoints []found) {
	e.probe = "filters"
	if len(networks) == 0 && len(endpoints) == 0 {
		e.find("W11", Unknown, "there is nothing to list")
	}
	for _, n := range networks[:min(len(networks), 3)] {
		e.filter(network, `{"Name":`+quoted(n.Name)+`}`, networks, func(o object) bool { return o.Name == n.Name })
		e.filter(network, `{"ID":`+quoted(n.ID)+`}`, networks, func(o object) bool { return o.ID == n.ID })
		e.filter(endpoint, `{"VirtualNetwork":`+quoted(n.ID)+`}`, endpoints, func(o object) bool {
			return strings.EqualFold(o.HostComputeNetwork, n.ID)
		})
	}
	for _, state := range []json.Number{"1", "2", "3"} {
		if slices.ContainsFunc(endpoints, func(f found) bool { return f.State != "" }) {
			e.filter(endpoint, `{"State":`+state.String()+`}`, endpoints, func(o object) bool { return o.State == state })
		}
	}
}

// filter holds a filtered list against what was read. What differs is read once more, as it
// may have come, changed or gone meanwhile.
func (e *exam) filter(kind, filter string, all []found, matches func(object) bool) {
	ids, r := e.enumerate("a filter", kind, filter)
	switch {
	case r.lost(): // that says nothing of filters
		e.find("W11", Unknown, filter+": "+r.said(), r)
		return
	case !r.ok():
		e.find("W11", Refuted, filter+": "+r.said(), r)
		return
	}
	var wrong []string
	for _, f := range all {
		listed := slices.ContainsFunc(ids, func(id string) bool { return strings.EqualFold(id, f.ID) })
		if listed == matches(f.object) {
			continue
		}
		if now, ok := e.look(kind, f.ID); ok && listed != matches(now.object) {
			wrong = append(wrong, f.ID)
		}
	}
	e.holds("W11", len(wrong) == 0, fmt.Sprintf("%s lists %d, and is wrong about %d", filter, len(ids), len(wrong)), r)
}

// podNetworks are the types of networks on which CNIs put pods.
var podNetworks = []string{"l2bridge", "l2tunnel", "overlay"}

// states looks in which state the endpoints of pods are: those with a namespace.
func (e *exam) states(networks, endpoints []found) {
	e.probe = "states"
	types := map[string]string{}
	for _, n := range networks {
		types[strings.ToLower(n.ID)] = strings.ToLower(n.Type)
	}
	pods := 0
	var others, remote []*Record
	for _, f := range endpoints {
		if f.Flags&1 != 0 {
			remote = append(remote, f.record)
			continue
		}
		if f.HostComputeNamespace == "" || !slices.Contains(podNetworks, types[strings.ToLower(f.HostComputeNetwork)]) {
			continue
		}
		if pods++; f.State != "2" && f.State != "3" {
			others = append(others, f.record)
		}
	}
	switch {
	case len(others) > 0:
		e.find("E1", Refuted, fmt.Sprintf("%d of %d are in another state", len(others), pods), others...)
	case pods == 0:
		e.find("E1", Unknown, "no pod is here")
	default:
		e.find("E1", Held, fmt.Sprintf("all %d are", pods))
	}
	if len(remote) == 0 {
		e.find("E3", Unknown, "no endpoint has the flag")
		return
	}
	attached := slices.ContainsFunc(endpoints, func(f found) bool { return f.Flags&1 != 0 && f.HostComputeNamespace != "" })
	e.holds("E3", !attached, fmt.Sprintf("%d endpoints have it, none of them in a namespace: %v", len(remote), !attached), remote...)
}

// foreignRules looks at the rules that are there, whoever wrote them.
func (e *exam) foreignRules(endpoints []found) {
	e.probe = "rules"
	n := 0
	var narrow, odd, typeless []*Record
	for _, f := range endpoints {
		for _, p := range f.Policies {
			if p.Type != "ACL" {
				continue
			}
			n++
			fields := p.fields()
			if fields["Scope"] == nil || fields["Type"] == nil {
				narrow = append(narrow, f.record)
			}
			if priority := fields["Priority"]; fields == nil || priority != nil && json.Unmarshal(priority, new(uint16)) != nil {
				odd = append(odd, f.record)
			}
			if fields["RuleType"] == nil {
				typeless = append(typeless, f.record)
			}
		}
	}
	if n == 0 {
		e.find("W4", Unknown, "no endpoint has a rule")
		e.find("W8", Unknown, "no endpoint has a rule")
		return
	}
	verdict := Held
	if len(narrow) > 0 {
		verdict = Unknown // those of others: a rule of the doctor's own decides
	}
	e.find("W4", verdict, fmt.Sprintf("%d rules, %d without Scope or Type", n, len(narrow)), first(narrow)...)
	e.holds("W8", len(odd) == 0, fmt.Sprintf("%d rules, %d otherwise", n, len(odd)), first(odd)...)
	e.find("A15", Unknown, fmt.Sprintf("%d of %d rules are shown without RuleType", len(typeless), n), first(typeless)...)
}

// otherTiers looks for policies of the network and of tiers that other agents write.
func (e *exam) otherTiers(networks, endpoints []found) {
	e.probe = "tiers"
	var others []*Record
	for _, f := range slices.Concat(networks, endpoints) {
		for _, p := range f.Policies {
			if p.Type == "TierAcl" || p.Type == "NetworkACL" {
				others = append(others, f.record)
			}
		}
	}
	if len(others) == 0 {
		e.find("A27", Unknown, "there are none")
		return
	}
	e.find("A27", Refuted, fmt.Sprintf("%d objects have some: WinNPM does not know what they do", len(others)), first(others)...)
}

// keys looks at the switches of HNS in the registry.
func (e *exam) keys(node Node) {
	e.probe = "keys"
	set := []string{}
	for _, key := range sorted(node.Keys) {
		set = append(set, key+"="+node.Keys[key])
	}
	if node.Keys == nil {
		e.find("N9", Unknown, "the registry cannot be read")
		return
	}
	e.find("N9", Unknown, "set: "+or(strings.Join(set, ", "), "none")+"; what A17 says decides")
}

// calls looks at all answers so far.
func (e *exam) calls() {
	e.probe = "calls"
	var lost, denied []*Record
	for _, r := range e.records {
		switch {
		case r.lost():
			lost = append(lost, r)
		case r.denied():
			denied = append(denied, r)
		}
	}
	switch what := fmt.Sprintf("%d of %d calls had no answer", len(lost), len(e.records)); {
	case len(lost) == 0:
		e.find("W10", Held, what)
	case len(lost) < len(e.records)-1: // a thread that needs COM gets no answer to any
		e.find("W10", Unknown, what, first(lost)...)
	default:
		e.find("W10", Refuted, what, first(lost)...)
	}
	if len(denied) == 0 {
		e.find("C7", Unknown, "the doctor had the rights")
		return
	}
	e.holds("C7", len(denied) >= len(e.records)-1, fmt.Sprintf("%d of %d calls were refused: run it as Administrator", len(denied), len(e.records)), first(denied)...)
}

// lost reports whether a call had no answer of HNS.
func (r *Record) lost() bool { return r.Error != "" || r.class() == hns.BrokeOff }

// first is enough of many records.
func first(records []*Record) []*Record { return records[:min(len(records), 5)] }

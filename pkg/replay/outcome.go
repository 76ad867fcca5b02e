package replay

import (
	"fmt"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
)

// compareReports compares how a step ended with how this build ends it.
func (p *player) compareReports(l *playback, was, is state.Report) {
	kind := Outcome
	if p.loose || l.unsure {
		kind = Note
	}
	if was.Pending != is.Pending {
		p.found(l, nil, Finding{Kind: kind, Text: fmt.Sprintf("it ended with %s, in this build with %d", count(was.Pending, "pending pod"), is.Pending)})
	}
	if len(was.Errors) != len(is.Errors) {
		p.found(l, nil, Finding{Kind: kind, Text: fmt.Sprintf("it ended with %s, in this build with %d", count(len(was.Errors), "error"), len(is.Errors)), Legend: inBuild,
			Lines: particulars(difference(was.Errors, is.Errors))})
	}
	missing, surplus := difference(warnings(was), warnings(is))
	if len(missing)+len(surplus) > 0 {
		p.found(l, nil, Finding{Kind: kind, Text: "this build ends it with other warnings", Legend: inBuild, Lines: particulars(missing, surplus)})
	}
}

// warnings returns those of a report without the words of HNS.
func warnings(r state.Report) []string {
	out := make([]string, len(r.Warnings))
	for i, w := range r.Warnings {
		out[i] = fmt.Sprintf("%s %s %s", w.Kind, w.Object, w.Reason)
	}
	return out
}

// final compares the state after the last step with a dump of the agent.
func (p *player) final(was state.Dump) []Finding {
	is := p.dp.Dump()
	if len(was.Reports) > 0 && len(is.Reports) > 0 && was.Reports[len(was.Reports)-1].Generation != is.Reports[len(is.Reports)-1].Generation || was.Node != is.Node {
		return []Finding{{Kind: Note, Text: "the dump is of another moment than the end of the recording; they were not compared"}}
	}
	kind := Outcome
	if p.loose {
		kind = Note
	}
	out := []Finding{}
	compare(setTexts(was), setTexts(is), func(name string, a, b []string) {
		out = append(out, Finding{Kind: kind, Object: name, Text: fmt.Sprintf("set %s is another one in the dump than after this replay", name), Legend: inDump, Lines: particulars(difference(b, a))})
	})
	compare(endpointTexts(was), endpointTexts(is), func(id string, a, b []string) {
		out = append(out, Finding{Kind: kind, Object: id, Text: fmt.Sprintf("endpoint %s is another one in the dump than after this replay", id), Legend: inDump, Lines: particulars(difference(b, a))})
	})
	compare(pendingTexts(was), pendingTexts(is), func(pod string, a, b []string) {
		out = append(out, Finding{Kind: kind, Object: pod, Text: fmt.Sprintf("pod %s is pending in the dump or after this replay, not in both", pod), Legend: inDump, Lines: particulars(difference(b, a))})
	})
	return out
}

// texts are lines about objects, by object.
type texts map[string][]string

// compare calls differs for every object of which the lines are not the same, in
// order.
func compare(was, is texts, differs func(object string, was, is []string)) {
	var all []string
	for _, t := range []texts{was, is} {
		for object := range t {
			all = append(all, object)
		}
	}
	slices.Sort(all)
	for _, object := range slices.Compact(all) {
		if !same(was[object], is[object]) {
			differs(object, was[object], is[object])
		}
	}
}

func setTexts(d state.Dump) texts {
	out := texts{}
	for _, s := range d.Sets {
		lines := []string{fmt.Sprintf("id %s, in HNS %t, as it should be there %t", s.ID, s.InHNS, !s.Dirty)}
		for _, m := range s.Members {
			lines = append(lines, "member "+m)
		}
		for _, m := range s.Missing {
			lines = append(lines, "missing in HNS "+m)
		}
		for _, m := range s.Surplus {
			lines = append(lines, "surplus in HNS "+m)
		}
		out[s.Name] = lines
	}
	return out
}

func endpointTexts(d state.Dump) texts {
	out := texts{}
	for _, e := range d.Endpoints {
		lines := []string{fmt.Sprintf("pod %q, addresses %s, known %t", e.Pod, strings.Join(e.Addrs, " "), e.Known)}
		for _, a := range e.Applied {
			lines = append(lines, "has "+acl.RuleText(a))
		}
		for _, a := range e.Wanted {
			lines = append(lines, "should have "+acl.RuleText(a))
		}
		out[e.ID] = lines
	}
	return out
}

func pendingTexts(d state.Dump) texts {
	out := texts{}
	for _, p := range d.Pending {
		name := p.Pod
		if name == "" {
			name = p.Endpoint
		}
		out[name] = append(out[name], strings.TrimSpace("endpoint "+p.Endpoint))
	}
	return out
}

// tell adds the Detail to a step that has been played, if it was asked for.
func (p *player) tell(l *playback) {
	if l.step.Number != p.detail {
		return
	}
	d := &Detail{Recorded: *l.step, Sets: []SetState{}, Endpoints: []EndpointState{}}
	sets, endpoints := map[string]string{}, map[string]bool{}
	for _, c := range l.step.Calls {
		for _, s := range c.Sets {
			sets[s.ID] = s.Name
		}
		if c.Endpoint != "" {
			endpoints[c.Endpoint] = true
		}
	}
	for _, id := range sorted(sets) {
		s := SetState{ID: id, Name: sets[id]}
		if is, there := p.world.sets[id]; there {
			s.Values = append([]string{}, is.Values...)
		}
		d.Sets = append(d.Sets, s)
	}
	for _, id := range sorted(endpoints) {
		e, there := p.world.endpoints[id]
		ours, others := hns.Endpoint(e).Split()
		d.Endpoints = append(d.Endpoints, EndpointState{ID: id, There: there, Rules: rules(ours), Others: len(others)})
	}
	l.out.Detail = d
}

// sum counts what was found.
func (p *player) sum() {
	r := p.result
	for _, s := range r.Steps {
		n := differences(s.Findings)
		if n > 0 && r.Differences == 0 {
			r.First = s.Number
		}
		r.Differences += n
	}
	r.Differences += differences(r.Final)
}

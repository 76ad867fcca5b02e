package doctor

import (
	"encoding/json"
	"maps"
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
)

// want is what WinNPM takes for granted that HNS does with a request.
type want int

const (
	taken    want = iota // done, and shown as it was sent
	refused              // refused, with a code that says that the content is why
	exists               // refused as being there already
	absent               // refused as not being there
	inUse                // refused as being in use
	anything             // nobody knows: it is recorded
	done                 // success; a look tells what it did
)

// classes are those of the codes of refusals.
var classes = map[want]hns.CodeClass{refused: hns.RefusesContent, exists: hns.SaysExists, absent: hns.SaysMissing, inUse: hns.SaysUsed}

// step is a request, or a part of what a probe prepares.
type step struct {
	verb     string
	policies string // JSON, separated by commas
}

// probe is a request to HNS, and what is assumed of it.
type probe struct {
	name    string
	settles string // the assumption; empty: none, the simulator's word only
	before  []step // what is there already; it has to be taken
	step
	want want
	// look is a further look at what is shown afterwards; nil: none.
	look func(e *exam, p probe, shown found, ok bool)
}

// judge says what the answer to a request means for the assumption of its probe; otherwise is
// what is not shown as it was sent.
func (e *exam) judge(p probe, r *Record, otherwise string) {
	class, refusal := classes[p.want]
	switch {
	case p.want == anything:
		e.find(p.settles, Unknown, r.said(), r)
	case r.Error != "":
		e.find(p.settles, Unknown, r.said(), r)
	case p.want == done:
		e.holds(p.settles, r.ok(), r.said(), r)
	case p.want == taken:
		e.holds(p.settles, r.ok() && otherwise == "", or(otherwise, r.said()), r)
	case refusal && r.ok():
		e.holds(p.settles, false, "HNS takes it", r)
	case refusal:
		e.judgeCode(r, class)
		e.holds(p.settles, class == hns.RefusesContent || r.class() == class, "refused: "+r.said(), r)
	}
}

// judgeCode says what the code of a refusal means.
func (e *exam) judgeCode(r *Record, class hns.CodeClass) {
	is := r.class()
	if class == hns.RefusesContent {
		e.holds("C1", is == class, "refused: "+r.said(), r)
	}
	e.holds("C2", is != hns.BrokeOff, "refused: "+r.said(), r)
}

// wire is a request's policies as JSON objects.
func wire(policies string) []shownPolicy {
	var out []shownPolicy
	if json.Unmarshal([]byte("["+policies+"]"), &out) != nil {
		return nil
	}
	return out
}

// difference is something that is not shown as it was sent, and the assumption that it
// refutes.
type difference struct{ refutes, what string }

// notAsSent says what of the policies of a request is not shown as it was sent. That a policy
// is not there, or has another name, refutes what the probe is about; how a text is spelled is
// an assumption of its own.
func notAsSent(p probe, shown []shownPolicy) []difference {
	var out []difference
	for _, sent := range wire(p.policies) {
		fields := sent.fields()
		best := []difference{{p.settles, sent.Type + " " + text(fields, "Id") + " is not shown"}}
		for _, q := range shown {
			seen := q.fields()
			if q.Type != sent.Type || !resembles(fields, seen) {
				continue
			}
			if best = spelled(p, sent.Type, fields, seen); len(best) == 0 {
				break
			}
		}
		out = append(out, best...)
	}
	return out
}

// resembles reports whether what is shown may be what was sent: it has its Id, or lost that
// and nothing else.
func resembles(sent, seen map[string]json.RawMessage) bool {
	if id := text(seen, "Id"); id != "" {
		return strings.EqualFold(id, text(sent, "Id"))
	}
	rest := maps.Clone(sent)
	delete(rest, "Id")
	return len(differs(rest, seen)) == 0
}

// spelled says which assumptions the differences of one policy refute.
func spelled(p probe, kind string, sent, seen map[string]json.RawMessage) []difference {
	var out []difference
	for _, field := range sorted(sent) {
		what := differs(map[string]json.RawMessage{field: sent[field]}, seen)
		if len(what) == 0 {
			continue
		}
		refutes := p.settles
		switch {
		case kind == "SetPolicy" && field == "Values":
			refutes = "W7"
		case kind == "SetPolicy":
		case field == "Id":
			refutes = "W5"
		case field == "Priority" && json.Unmarshal(seen[field], new(uint16)) != nil:
			refutes = "W8"
		case kind == "ACL":
			refutes = "W6"
		}
		out = append(out, difference{refutes, what[0]})
	}
	return out
}

// aboutProbe is what differs of what the probe is about; all else is found as such.
func (e *exam) aboutProbe(p probe, all []difference, shown *Record) string {
	var own []string
	for _, d := range all {
		if d.refutes == p.settles {
			own = append(own, d.what)
		} else {
			e.find(d.refutes, Refuted, d.what, shown)
		}
	}
	return strings.Join(own, "; ")
}

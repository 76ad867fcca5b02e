package doctor

import (
	"encoding/json"
	"fmt"
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

// judge says what the answer to a request means for the assumption of its probe.
func (e *exam) judge(p probe, r *Record, kept []string) {
	class, refusal := classes[p.want]
	switch {
	case p.want == anything:
		e.find(p.settles, Unknown, r.said(), r)
	case r.Error != "":
		e.find(p.settles, Unknown, r.said(), r)
	case p.want == done:
		e.holds(p.settles, r.ok(), r.said(), r)
	case p.want == taken:
		e.holds(p.settles, r.ok() && len(kept) == 0, or(strings.Join(kept, "; "), r.said()), r)
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

// isMissing reports whether a code says that something is not there.
func isMissing(code uint32) bool { return hns.LookupCode(code).Class == hns.SaysMissing }

// wire is a request's policies as JSON objects.
func wire(policies string) []shownPolicy {
	var out []shownPolicy
	if json.Unmarshal([]byte("["+policies+"]"), &out) != nil {
		return nil
	}
	return out
}

// notAsSent says what of the policies of a request is not shown as it was sent. Of several
// that bear its Id one has to be so.
func notAsSent(policies string, shown []shownPolicy) []string {
	var out []string
	for _, p := range wire(policies) {
		sent := p.fields()
		id := text(sent, "Id")
		differences := []string{fmt.Sprintf("%s %s is not shown", p.Type, id)}
		for _, q := range shown {
			if seen := q.fields(); q.Type == p.Type && strings.EqualFold(text(seen, "Id"), id) {
				if differences = differs(sent, seen); len(differences) == 0 {
					break
				}
			}
		}
		out = append(out, differences...)
	}
	return out
}

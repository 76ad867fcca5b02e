package torture

import (
	"fmt"
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/hnsfault"
)

// kind is one way to disturb a call.
type kind struct {
	name    string
	reads   bool // of reads too
	foreign bool // somebody else's hand: HNS may refuse what follows
	down    bool // the process stays away for the next step
	early   bool // before the re-read of an Update: what comes between the two is lost
	single  bool // of one object: the others are served all the same
	forGood bool // until the scenario is over, and ten minutes more
	ofSet   bool // of one of the sets that the call writes, and no other
	before  func(r *replay, c hnsfault.Call)
	after   func(r *replay, c hnsfault.Call)
}

// kinds are all of them.
var kinds = []kind{
	{name: "refused", reads: true, single: true, before: fault(hnsfault.Refuse)},
	{name: "refused for good", single: true, forGood: true, before: (*replay).stick},
	{name: "a set refused for good", single: true, forGood: true, ofSet: true, before: stickSet(hns.ErrInvalid, 0)},
	{name: "a set refused for good, with a code of no meaning", single: true, forGood: true, ofSet: true, before: stickSet(nil, 0x80004005)},
	{name: "reply lost", single: true, before: fault(hnsfault.LoseReply)},
	{name: "killed", after: kill(1)},
	{name: "killed twice", after: kill(2)},
	{name: "killed and away for a step", down: true, after: kill(1)},
	{name: "foreign rule added", foreign: true, early: true, before: addForeign},
	{name: "block dropped", foreign: true, early: true, before: dropACL(hns.Block)},
	{name: "allow dropped", foreign: true, before: dropACL(hns.Allow)},
	{name: "set emptied", foreign: true, before: emptySet},
	{name: "set dropped", foreign: true, before: dropSet},
	{name: "half done", foreign: true, before: half}, // but for an Update, which loses what is not ours
	{name: "all lost", foreign: true, before: loseAll},
}

// disturbance is a kind at a call.
type disturbance struct {
	kind       kind
	call       int      // from 0, of the steps
	op         string   // of that call in the undisturbed run
	write      int      // from 1
	retryFirst bool     // the next step waits until retries are done
	victim     string   // name of the set, of a kind that is of one
	owed       []string // endpoints that are written in the same transaction all the same
}

func (d *disturbance) String() string {
	if d == nil {
		return "none"
	}
	s := fmt.Sprintf("%s at call %d (%s, write %d)", d.kind.name, d.call, d.op, d.write)
	if d.victim != "" {
		s += " " + d.victim
	}
	if d.retryFirst {
		s += ", retried before the next step"
	}
	return s
}

// disturbances returns what is to be done to the calls of a run.
func (r *replay) disturbances(b budget) []disturbance {
	var out []disturbance
	write := 0
	for i := range r.played {
		c := r.calls[i]
		if isWrite(c.Op) {
			write++
		}
		for n, k := range kinds {
			if !isWrite(c.Op) && !k.reads {
				continue
			}
			if (i+n)%b.nth != 0 || k.name == "half done" && c.Op == "ACL/Update" || k.ofSet && len(c.Sets) == 0 {
				continue
			}
			at := i
			if k.early && c.Op == "ACL/Update" {
				at--
			}
			d := disturbance{kind: k, call: at, op: r.calls[at].Op, write: write, retryFirst: !k.forGood && (i+n)%2 == 1}
			switch {
			case k.ofSet:
				d.victim = c.Sets[(i+n)%len(c.Sets)].Name
				d.owed = r.owedBut(i, d.victim)
			case k.single:
				d.owed = r.owed(i)
			}
			out = append(out, d)
			if b.both && !k.forGood {
				d.retryFirst = !d.retryFirst
				out = append(out, d)
			}
		}
	}
	return out
}

// onCall sees every call on both sides.
func (r *replay) onCall(c hnsfault.Call, when hnsfault.When) {
	if !r.began {
		if when == hnsfault.After && isWrite(c.Op) && !r.sc.blind {
			r.check("in the given part")
		}
		return
	}
	n := len(r.calls)
	d := r.disturb
	if when == hnsfault.Before {
		r.calls, r.applies = append(r.calls, c), append(r.applies, r.applied)
		r.hold(c)
		if d != nil && n == d.call && !r.fired {
			r.note("disturbed: %v", d)
			r.fired = true
			r.whole = r.whole && !d.kind.foreign
			r.kills = 0
			if d.kind.before != nil {
				d.kind.before(r, c)
			}
		}
		return
	}
	n--
	if !isWrite(c.Op) {
		return
	}
	r.note("%s", describe(c))
	r.check(fmt.Sprintf("after call %d", n))
	if d != nil && d.kind.after != nil && n >= d.call {
		d.kind.after(r, c)
	}
}

// describe words a write for whoever reads a failure.
func describe(c hnsfault.Call) string {
	var b strings.Builder
	fmt.Fprintf(&b, "  %s %s", c.Op, c.Target)
	for _, s := range c.Sets {
		fmt.Fprintf(&b, " [%s: %s]", s.Name, strings.Join(s.Values, ","))
	}
	for _, a := range c.ACLs {
		fmt.Fprintf(&b, " [%s %s %d local=%s remote=%s ports=%s%s]", a.ID, a.Direction, a.Priority, a.LocalAddresses, a.RemoteAddresses, a.LocalPorts, a.RemotePorts)
	}
	if c.Err != nil {
		fmt.Fprintf(&b, " -> %v", c.Err)
	}
	return b.String()
}

// fault takes the call that is about to be made.
func fault(mode hnsfault.Mode) func(*replay, hnsfault.Call) {
	return func(r *replay, c hnsfault.Call) { r.sim.Inject(hnsfault.Fault{Op: c.Op, Mode: mode}) }
}

// kill ends the process after the call, and further ones after their first write.
func kill(times int) func(*replay, hnsfault.Call) {
	return func(r *replay, _ hnsfault.Call) {
		if r.kills < times {
			r.kills++
			panic(killed{})
		}
	}
}

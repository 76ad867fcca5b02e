package dataplane

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/state"
)

// Plan is what a transaction asks of HNS, in order, when each request succeeds: the
// requests that the core gives then. It is a value.
type Plan struct {
	Requests []hns.Request    // reads included
	Held     []desired.PodKey // pods that wait for an endpoint

	sets map[string]string // names by id
	pods map[string]string // namespace/name of the pod of an endpoint, by GUID
}

// PlanOf returns what a Dataplane with this state asks of HNS for a transaction, when
// nobody else changes anything in HNS meanwhile. It plays the transaction on a copy of
// the state, and makes no call.
//
// Endpoints that nobody has read are not in it, as what they have is not known. Of a
// write in doubt it takes that it was not done. An observation of tx is left out. The plan
// is of one transaction: what that leaves to the next is not in it. The time is that of
// cfg.Now, without it that of the dump. It fails with ErrDump.
func PlanOf(cfg Config, dump state.Dump, tx *Transaction) (Plan, error) {
	view, err := ViewOf(dump)
	if err != nil {
		return Plan{}, err
	}
	cfg.DryRun = false
	if cfg.Now == nil {
		cfg.Now = func() time.Time { return dump.Time }
	}
	d, err := Restore(cfg, dump, view)
	if err != nil {
		return Plan{}, err
	}
	p := Plan{sets: map[string]string{}, pods: map[string]string{}}
	for _, s := range dump.Sets {
		p.sets[s.ID] = s.Name
	}
	d.with(func(c *core) { c.play(tx, newWilling(dump, view), &p) })
	return p, nil
}

// play runs a transaction to its end against a node, and fills in its plan.
func (d *core) play(tx *Transaction, node *willing, p *Plan) {
	for id, ep := range d.endpoints.All() { // nobody else writes meanwhile
		if ep.Known() {
			ep.Rebase(d.spellings.Basis(node.endpoints[id]))
		}
	}
	seen := *tx
	seen.observed = nil // it is stamped with the writes of another process
	d.Begin(&seen)
	for req, more := d.Next(false); more; req, more = d.Next(false) {
		if req.Turns > 0 {
			d.Done(tx.turn(req))
		}
		if req.Op == "" {
			continue
		}
		p.Requests = append(p.Requests, req.Request)
		for _, s := range req.Sets {
			p.sets[s.ID] = s.Name
		}
		d.Done(Result{Result: node.do(req.Request)})
	}
	for id, ep := range d.endpoints.All() {
		p.pods[id] = d.endpoints.Pod(ep)
	}
	for _, pod := range d.endpoints.Waiting() {
		p.Held = append(p.Held, pod.Key())
	}
}

// Plan returns what is asked of HNS next. It costs a dump, and a copy of the state.
func (d *Dataplane) Plan() (Plan, error) {
	cfg := d.core.cfg
	cfg.Now = d.now
	return PlanOf(cfg, d.Dump(), NewTransaction())
}

// Summary is the plan in one line of counts; empty for one that writes nothing.
func (p Plan) Summary() string {
	var w written
	for _, r := range p.Requests {
		w.note(r)
	}
	return w.String()
}

// String is all that the plan writes, a line for every set and ACL, and who waits. Sets
// have their names in it, where these are known.
func (p Plan) String() string {
	var b strings.Builder
	section, endpoint := "", ""
	begin := func(title string) {
		if title != section {
			fmt.Fprintln(&b, title)
			section, endpoint = title, ""
		}
	}
	for _, r := range p.Requests {
		switch {
		case hns.ReadsOnly(r.Op):
		case r.Verb() == hns.Remove:
			begin("phase 2")
			b.WriteString(indent(p.setLines(r)))
		case r.Verb() != "":
			begin("phase 1")
			b.WriteString(indent(p.setLines(r)))
		default:
			begin("pods")
			if r.Endpoint != endpoint {
				endpoint = r.Endpoint
				fmt.Fprintf(&b, "  %s  %s\n", p.pods[endpoint], endpoint)
			}
			b.WriteString(indent(p.stepOf(r).String()))
		}
	}
	for _, pod := range p.Held {
		fmt.Fprintf(&b, "held: pod %s: endpoint not seen yet\n", pod)
	}
	return b.String()
}

// setLines has one line for every set of a request, with readable names.
func (p Plan) setLines(r hns.Request) string {
	verb := map[hns.Verb]ipsets.Verb{hns.Add: ipsets.Add, hns.Update: ipsets.Update, hns.Remove: ipsets.Remove}[r.Verb()]
	var b strings.Builder
	for _, s := range r.Sets {
		what, arrow, values := "set ", "", slices.Clone(s.Values)
		if s.Type == hns.NestedIPSet {
			what, arrow = "nest", "-> "
			for i, id := range values {
				if name := p.sets[id]; name != "" {
					values[i] = name
				}
			}
			slices.Sort(values)
		}
		line := fmt.Sprintf("%s %s  %s", what, verb, s.Name)
		if verb != ipsets.Remove {
			line += "  " + arrow + strings.Join(values, " ")
		}
		fmt.Fprintln(&b, strings.TrimRight(line, " "))
	}
	return b.String()
}

// stepOf is the step that a request for an endpoint makes, with readable names.
func (p Plan) stepOf(r hns.Request) acl.Step {
	s := acl.Step{Verb: hns.Add, ACLs: slices.Clone(r.ACLs)}
	if r.Op == hns.OpACLUpdate {
		s.Verb = hns.Update
	}
	for _, policy := range r.Policies {
		if a, err := policy.ACL(); err == nil && a.Ours() {
			s.ACLs = append(s.ACLs, a)
		}
	}
	for i := range s.ACLs {
		s.ACLs[i].LocalAddresses = p.named(s.ACLs[i].LocalAddresses)
		s.ACLs[i].RemoteAddresses = p.named(s.ACLs[i].RemoteAddresses)
	}
	return s
}

// named is the addresses of an ACL with the names of sets in the place of their ids.
func (p Plan) named(addresses string) string {
	parts := strings.Split(addresses, ",")
	for i, part := range parts {
		parts[i] = cmp.Or(p.sets[part], part)
	}
	return strings.Join(parts, ",")
}

// indent puts two blanks before every line and ends with a line feed.
func indent(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString("  " + strings.TrimSuffix(line, "\n") + "\n")
	}
	return b.String()
}

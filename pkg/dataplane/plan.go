package dataplane

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/state"
)

// Plan is the sequence of requests to HNS if each of them succeeds. It is a value.
type Plan struct {
	Requests []hns.Request // reads included
	Held     []string      // pods that wait for an endpoint, as namespace/name

	sets map[string]string // names by id
	pods map[string]string // namespace/name of the pod of an endpoint, by GUID
}

// NewPlan returns the plan of these requests. The dump is from the agent that makes the requests,
// after it has made them.
func NewPlan(requests []hns.Request, dump state.Dump) Plan {
	p := Plan{Requests: requests, sets: map[string]string{}, pods: map[string]string{}}
	for _, s := range dump.Sets {
		p.sets[s.ID] = s.Name
	}
	for _, r := range requests {
		for _, s := range r.Sets {
			p.sets[s.ID] = s.Name
		}
	}
	for _, ep := range dump.Endpoints {
		p.pods[ep.ID] = ep.Pod
	}
	for _, pending := range dump.Pending {
		if pending.Endpoint == "" {
			p.Held = append(p.Held, pending.Pod)
		}
	}
	return p
}

// Plan returns the requests that a new agent without a grace period would send to HNS, for the
// objects that this agent knows, if no other program changes HNS meanwhile. It simulates the first
// transaction of the new agent, and makes no call. A write with an unknown outcome counts as not
// done. Plan costs a dump and a copy of the state.
func (d *Dataplane) Plan() (Plan, error) {
	dump := d.Dump()
	objects, err := desired.ObjectsOf(dump)
	if err != nil {
		return Plan{}, fmt.Errorf("%w: %w", ErrDump, err)
	}
	view, err := ViewOf(dump)
	if err != nil {
		return Plan{}, err
	}
	cfg := d.core.cfg
	cfg.Now, cfg.DryRun, cfg.GracePeriod = d.now, false, 0
	other := New(cfg)
	var requests []hns.Request
	other.with(func(c *core) { requests = c.play(&Transaction{Objects: objects}, newWilling(dump, view)) })
	return NewPlan(requests, other.Dump()), nil
}

// play runs a transaction to its end against a simulated node, and returns its requests.
func (d *core) play(tx *Transaction, node *willing) (requests []hns.Request) {
	d.Begin(tx)
	for req, more := d.Next(false); more; req, more = d.Next(false) {
		if req.Op == "" {
			continue
		}
		requests = append(requests, req.Request)
		d.Done(Result{Result: node.do(req.Request)})
	}
	return requests
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

package explain

import (
	"fmt"
	"slices"
	"time"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// Places tells where manifests have policies and their rules, as file:line; by
// "namespace/name" and "namespace/name spec.ingress[0]". The nil Places has
// none.
type Places map[string]string

// Policy returns where a policy is; "" when that is not known.
func (p Places) Policy(policy string) string { return p[policy] }

// Rule returns where a rule of a policy is; "" when that is not known.
func (p Places) Rule(policy, path string) string { return p[policy+" "+path] }

// Explain answers one question from a dump, which stays as it is. It fails with
// ErrNoEnd for an end that cannot be asked about.
func Explain(d state.Dump, q Question, places Places) (Answer, error) {
	return New(d).Ask(q, places)
}

// Ask answers a question. It fails with ErrNoEnd for an end that cannot be asked
// about.
func (c *Cluster) Ask(q Question, places Places) (Answer, error) {
	from, to, err := c.ends(q)
	if err != nil {
		return Answer{}, err
	}
	p := packet(from, to, q.Port, q.Protocol)
	a := Answer{
		From: q.From, To: q.To, Source: from.addr.String(), Destination: to.addr.String(),
		Port: q.Port, Protocol: q.Protocol, Node: c.dump.Node, Time: c.dump.Time,
		Egress:  c.side(from, to, question{dir: hns.Out, packet: p}, places),
		Ingress: c.side(to, from, question{dir: hns.In, packet: p}, places),
	}
	a.Verdict = a.verdict()
	a.Warnings = c.warnings(a)
	return a, nil
}

// verdict joins both ends.
func (a Answer) verdict() Verdict {
	return join(a.Egress.verdict(), a.Ingress.verdict())
}

// With joins it with the other end of the connection, as far as this node has a say in it:
// an end that is not judged here blocks nothing here.
func (h Half) With(other Half) (actual, wanted Verdict) {
	switch {
	case !h.Judged:
		return other.Actual, other.Wanted
	case !other.Judged:
		return h.Actual, h.Wanted
	}
	actual, wanted = Whole(h, other)
	if actual == Allowed && (h.own.contested() || other.own.contested()) { // to the address, which may be another pod's
		actual = Unknown
	}
	return actual, wanted
}

// Whole joins what both ends of a connection say into its verdicts.
func Whole(egress, ingress Half) (actual, wanted Verdict) {
	return join(egress.Actual, ingress.Actual), join(egress.Wanted, ingress.Wanted)
}

// Halves returns what each end says. It fails with ErrNoEnd for an end that
// cannot be asked about.
func (c *Cluster) Halves(q Question) (egress, ingress Half, err error) {
	from, to, err := c.ends(q)
	if err != nil {
		return Half{}, Half{}, err
	}
	egress, ingress = c.Between(from, to, q.Port, q.Protocol)
	return egress, ingress, nil
}

// Between returns what each of two ends says to a connection to a port.
func (c *Cluster) Between(from, to End, port uint16, protocol policy.Protocol) (egress, ingress Half) {
	return c.halves(from, to, question{packet: packet(from, to, port, protocol)})
}

// Actual is Between for a great many questions: it does not ask what HNS should have.
func (c *Cluster) Actual(from, to End, port uint16, protocol policy.Protocol) (egress, ingress Half) {
	return c.halves(from, to, question{packet: packet(from, to, port, protocol), brief: true, actualOnly: true})
}

func (c *Cluster) ends(q Question) (from, to End, err error) {
	if from, err = c.End(q.From); err == nil {
		to, err = c.End(q.To)
	}
	return from, to, err
}

func packet(from, to End, port uint16, protocol policy.Protocol) hns.Packet {
	return hns.Packet{Src: from.addr, Dst: to.addr, Protocol: protocolNumbers[protocol], DstPort: port}
}

// join joins what both ends say; an end that is not judged says Unknown. One end is enough
// to block, and both have to allow.
func join(egress, ingress Verdict) Verdict {
	switch {
	case egress == Blocked || ingress == Blocked:
		return Blocked
	case egress == Allowed && ingress == Allowed:
		return Allowed
	}
	return Unknown
}

// warnings returns those of the dump that may have to do with the answer.
func (c *Cluster) warnings(a Answer) []string {
	about := map[string]bool{"Node " + c.dump.Node: true}
	for _, s := range []Side{a.Egress, a.Ingress} {
		about["Pod "+s.Pod] = true
		for _, p := range s.Isolating {
			about["NetworkPolicy "+p] = true
		}
		for _, p := range c.dump.ClusterPolicies {
			if s.Pod != "" && slices.Contains(p.Selected, s.Pod) {
				about["ClusterNetworkPolicy "+p.Name] = true
			}
		}
	}
	out := []string{}
	for _, w := range c.dump.Warnings {
		if about[w.Kind+" "+w.Object] {
			out = append(out, fmt.Sprintf("%s %s: %s: %s", w.Kind, w.Object, w.Reason, w.Message))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// timeText writes a time for a person.
func timeText(t time.Time) string { return t.UTC().Format(time.RFC3339) }

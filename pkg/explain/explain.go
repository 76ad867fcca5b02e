package explain

import (
	"fmt"
	"slices"
	"time"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/hns"
)

// Places tells where manifests have policies and their rules, as file:line; by
// "namespace/name" and "namespace/name spec.ingress[0]". The nil Places has
// none.
type Places map[string]string

// Policy returns where a policy is; "" when that is not known.
func (p Places) Policy(policy string) string { return p[policy] }

// Rule returns where a rule of a policy is; "" when that is not known.
func (p Places) Rule(policy, path string) string { return p[policy+" "+path] }

// Explain answers a question from a dump, which stays as it is. It fails with
// ErrNoEnd for an end that cannot be asked about.
func Explain(d dataplane.Dump, q Question, places Places) (Answer, error) {
	c := newCluster(&d)
	from, err := c.end(q.From)
	if err != nil {
		return Answer{}, err
	}
	to, err := c.end(q.To)
	if err != nil {
		return Answer{}, err
	}
	packet := hns.Packet{Src: from.addr, Dst: to.addr, Protocol: protocolNumbers[q.Protocol], DstPort: q.Port}
	a := Answer{
		From: q.From, To: q.To, Source: from.addr.String(), Destination: to.addr.String(),
		Port: q.Port, Protocol: q.Protocol, Node: d.Node, Time: d.Time,
		Egress:  c.side(from, to, question{hns.Out, packet}, places),
		Ingress: c.side(to, from, question{hns.In, packet}, places),
	}
	a.Verdict = verdict(a.Egress, a.Ingress)
	a.Warnings = c.warnings(a)
	return a, nil
}

// verdict joins both ends.
func verdict(egress, ingress Side) Verdict {
	out := Unknown
	for _, s := range []Side{egress, ingress} {
		if s.verdict() == Blocked {
			return Blocked
		}
		if s.Judged {
			out = Allowed
		}
	}
	for _, s := range []Side{egress, ingress} {
		if s.Judged && s.verdict() == Unknown {
			return Unknown
		}
	}
	return out
}

// warnings returns those of the dump that may have to do with the answer.
func (c *cluster) warnings(a Answer) []string {
	about := map[string]bool{"Node " + c.dump.Node: true}
	for _, s := range []Side{a.Egress, a.Ingress} {
		about["Pod "+s.Pod] = true
		for _, p := range s.Isolating {
			about["NetworkPolicy "+p] = true
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

// Package explain says why a connection is allowed or blocked. From a dump it computes the actual and the
// desired verdict at each end, the rules that decide, why each end is a member of their sets or not, and
// single changes that would allow the connection.
//
// A dump may come from anywhere, so the package does not rely on its consistency. If the dump lacks
// information, the verdict is Unknown, never guessed.
package explain

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/match"
)

// Places maps policies and their rules to file:line in manifests. Its keys are "namespace/name" and
// "namespace/name spec.ingress[0]".
type Places map[string]string

// Explain answers one question from a dump. It fails like Cluster.End.
func Explain(d state.Dump, q Question, places Places) (Answer, error) {
	c := New(d)
	from, to, err := c.ends(q)
	if err != nil {
		return Answer{}, err
	}
	p := packet(from, to, q.Port, q.Protocol)
	a := Answer{
		From: q.From, To: q.To, Source: from.addr.String(), Destination: to.addr.String(),
		Port: q.Port, Protocol: q.Protocol, Node: c.dump.Node, Time: c.dump.Time,
		Egress:  c.side(from, to, question{hns.Out, p}, places),
		Ingress: c.side(to, from, question{hns.In, p}, places),
	}
	a.Verdict = Worse(a.Egress.verdict(), a.Ingress.verdict())
	a.Warnings = c.warnings(a)
	return a, nil
}

// With combines the verdicts of both ends of a connection. It ignores an end that is not judged on this
// node.
func (h Half) With(other Half) (actual, wanted Verdict) {
	switch {
	case !h.Judged:
		return other.Actual, other.Wanted()
	case !other.Judged:
		return h.Actual, h.Wanted()
	}
	actual, wanted = Worse(h.Actual, other.Actual), Worse(h.Wanted(), other.Wanted())
	if actual == Allowed && (h.own.contested() || other.own.contested()) { // for the address, whose owner may be another pod
		actual = Unknown
	}
	return actual, wanted
}

func (c *Cluster) ends(q Question) (from, to End, err error) {
	if from, err = c.End(q.From); err == nil {
		to, err = c.End(q.To)
	}
	return from, to, err
}

func packet(from, to End, port uint16, protocol policy.Protocol) match.Packet {
	return match.Packet{Src: from.addr, Dst: to.addr, Protocol: protocolNumbers[protocol], DstPort: port}
}

// Worse combines the verdicts of both ends of a connection, or of two answers: Blocked if one of them is
// Blocked, Allowed if both are, else Unknown.
func Worse(egress, ingress Verdict) Verdict {
	switch {
	case egress == Blocked || ingress == Blocked:
		return Blocked
	case egress == Allowed && ingress == Allowed:
		return Allowed
	}
	return Unknown
}

// warnings returns the dump's warnings about the answer's node, pods and policies.
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

func timeText(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Node names the dump's node as an end.
const Node = "node"

// Question asks whether one end may open a connection to a port of another. An
// end is namespace/name of a pod, an IPv4 address, or Node.
type Question struct {
	From, To string
	Port     uint16
	Protocol policy.Protocol
}

// String returns the question in the format of Parse.
func (q Question) String() string {
	return fmt.Sprintf("%s -> %s:%d/%s", q.From, q.To, q.Port, q.Protocol)
}

// Parse reads FROM->TO:PORT/PROTO.
func Parse(text string) (Question, error) {
	from, rest, ok := strings.Cut(text, "->")
	at := strings.LastIndex(rest, ":")
	if !ok || at < 0 {
		return Question{}, errors.New("write FROM->TO:PORT/PROTO, like shop/web->shop/db:5432/TCP")
	}
	q := Question{From: strings.TrimSpace(from), To: strings.TrimSpace(rest[:at])}
	for _, end := range []string{q.From, q.To} {
		if err := checkEnd(end); err != nil {
			return Question{}, err
		}
	}
	var err error
	q.Port, q.Protocol, err = ParsePort(strings.TrimSpace(rest[at+1:]))
	if err != nil {
		return Question{}, err
	}
	return q, nil
}

// ParsePort reads PORT/PROTO.
func ParsePort(text string) (uint16, policy.Protocol, error) {
	number, protocol, ok := strings.Cut(text, "/")
	if !ok {
		return 0, "", errors.New("write PORT/PROTO, like 80/TCP")
	}
	n, err := strconv.ParseUint(number, 10, 16)
	if err != nil || n == 0 {
		return 0, "", fmt.Errorf("%q is no port: a number from 1 to 65535 is", number)
	}
	p := policy.Protocol(strings.ToUpper(protocol))
	if !p.Known() {
		return 0, "", fmt.Errorf("%q is no protocol: TCP, UDP and SCTP are", protocol)
	}
	return uint16(n), p, nil
}

// checkEnd accepts namespace/name, an IPv4 address, or Node.
func checkEnd(text string) error {
	if text == Node {
		return nil
	}
	if addr, err := netip.ParseAddr(text); err == nil {
		if !addr.Is4() {
			return fmt.Errorf("%s is no IPv4 address; WinNPM judges IPv4 only", text)
		}
		return nil
	}
	namespace, name, ok := strings.Cut(text, "/")
	strange := func(r rune) bool { return r == '/' || unicode.IsSpace(r) || !unicode.IsPrint(r) }
	if !ok || namespace == "" || name == "" || strings.ContainsFunc(namespace+name, strange) {
		return fmt.Errorf("%q is neither namespace/pod nor an IPv4 address", text)
	}
	return nil
}

// protocolNumbers are the IANA protocol numbers.
var protocolNumbers = map[policy.Protocol]uint8{policy.TCP: 6, policy.UDP: 17, policy.SCTP: 132}

// Join combines the answers of From's node and of To's node to one question. The verdict is Unknown if the
// nodes know different addresses for an end: then they judged different connections.
func Join(egress, ingress Answer) Answer {
	out := egress
	out.Node = ""
	out.Source = cmp.Or(egress.Source, ingress.Source)
	out.Destination = cmp.Or(egress.Destination, ingress.Destination)
	if egress.Time.IsZero() || !ingress.Time.IsZero() && ingress.Time.Before(egress.Time) {
		out.Time = ingress.Time
	}
	out.Egress.Node, out.Egress.Time = egress.Node, egress.Time
	out.Ingress = ingress.Ingress
	out.Ingress.Node, out.Ingress.Time = ingress.Node, ingress.Time
	out.Verdict = Worse(out.Egress.verdict(), out.Ingress.verdict())
	out.Warnings = append(append([]string{}, egress.Warnings...), ingress.Warnings...)
	for _, end := range []struct{ name, here, there string }{
		{out.From, egress.Source, ingress.Source},
		{out.To, egress.Destination, ingress.Destination},
	} {
		if end.here != "" && end.there != "" && end.here != end.there {
			out.Verdict = Unknown
			out.Warnings = append(out.Warnings, fmt.Sprintf("%s is %s to the agent on %s and %s to the one on %s: one of them is behind, ask again",
				end.name, end.here, egress.Node, end.there, ingress.Node))
		}
	}
	slices.Sort(out.Warnings)
	out.Warnings = slices.Compact(out.Warnings)
	return out
}

// Unanswered returns the answer for a node that filters at its end and did not answer. The verdict there is
// Unknown. It is for Join.
func Unanswered(q Question, node, why string) Answer {
	return symmetric(q, node, Side{Judged: true, Actual: newState(Unknown, why), Wanted: newState(Unknown, why)})
}

// Unjudged returns the answer for a node that does not filter. It is for Join.
func Unjudged(q Question, node, why string) Answer {
	return symmetric(q, node, Side{Note: why})
}

// symmetric returns an answer with the same side at both ends.
func symmetric(q Question, node string, s Side) Answer {
	s.Isolating, s.Misses = []string{}, []Miss{}
	a := Answer{From: q.From, To: q.To, Port: q.Port, Protocol: q.Protocol, Node: node, Egress: s, Ingress: s, Warnings: []string{}}
	a.Egress.End, a.Ingress.End = q.From, q.To
	a.Verdict = Worse(a.Egress.verdict(), a.Ingress.verdict())
	return a
}

func newState(v Verdict, why string) *State {
	return &State{Verdict: v, Why: why, Rules: []Rule{}, Tried: []Rule{}}
}

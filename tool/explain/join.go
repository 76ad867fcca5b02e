package explain

import (
	"cmp"
	"fmt"
	"slices"
)

// Join puts two answers to one question together, that of From's node and that
// of To's. It is Unknown when the nodes do not have the same addresses for the
// ends: then they judged two connections.
func Join(egress, ingress Answer) Answer {
	out := egress
	out.Node = ""
	out.Source = cmp.Or(egress.Source, ingress.Source)
	out.Destination = cmp.Or(egress.Destination, ingress.Destination)
	if egress.Time.IsZero() || !ingress.Time.IsZero() && ingress.Time.Before(egress.Time) {
		out.Time = ingress.Time
	}
	out.Egress, out.Ingress = half(egress, egress.Egress), half(ingress, ingress.Ingress)
	out.Verdict = out.verdict()
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

// half returns a side of an answer as that of its node.
func half(a Answer, s Side) Side {
	s.Node, s.Time = a.Node, a.Time
	return s
}

// Unanswered takes the place, in Join, of the answer of a node that judges its end and
// could not be asked. The verdict there is Unknown.
func Unanswered(q Question, node, why string) Answer {
	return silent(q, node, Side{Judged: true, Actual: unknownState(why), Wanted: unknownState(why)})
}

// Unjudged takes the place, in Join, of the answer of a node that judges nothing.
func Unjudged(q Question, node, why string) Answer {
	return silent(q, node, Side{Note: why})
}

// silent is an answer with the same side twice.
func silent(q Question, node string, s Side) Answer {
	s.Isolating, s.Misses = []string{}, []Miss{}
	a := Answer{From: q.From, To: q.To, Port: q.Port, Protocol: q.Protocol, Node: node, Egress: s, Ingress: s, Warnings: []string{}}
	a.Egress.End, a.Ingress.End = q.From, q.To
	a.Verdict = a.verdict()
	return a
}

func unknownState(why string) *State {
	return &State{Verdict: Unknown, Why: why, Rules: []Rule{}, Tried: []Rule{}}
}

package simulate

import (
	"context"
	"fmt"
	"iter"
	"net/netip"
	"slices"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/explain"
)

// Verdict says whether one end may open a connection to another.
type Verdict struct {
	From     string          `json:"from"` // namespace/name, or an address; in a matrix a workload
	To       string          `json:"to"`
	Port     uint16          `json:"port"`
	Protocol policy.Protocol `json:"protocol"`
	Allowed  *bool           `json:"allowed"` // nil: not known, as an end is not judged and the other one allows it
	Ingress  *Side           `json:"ingress"` // at To; nil: on another node, not judged
	Egress   *Side           `json:"egress"`  // at From

	// fromOther: From is the address of a node that may not be To's own.
	fromOther bool
}

// Side is the verdict at one end.
type Side struct {
	Allowed bool `json:"allowed"`
	explain.Decider
	// Rules are the rules that decided.
	Rules []hns.ACL `json:"-"`
}

// judge answers questions about one dump, with the verdicts of tool/explain.
type judge struct {
	cluster *explain.Cluster
	node    string
	// own are the addresses of each pod's node, as far as they are known.
	own map[string][]netip.Addr
}

// all answers every question, in order.
func (j judge) all(ctx context.Context, q questions, rows []gridRow) iter.Seq2[Verdict, error] {
	return func(yield func(Verdict, error) bool) {
		for _, p := range q.matrix {
			if !j.matrix(ctx, rows, p, yield) {
				return
			}
		}
		for v, err := range j.traces(q) {
			if !yield(v, err) {
				return
			}
		}
	}
}

// traces answers the questions about two ends.
func (j judge) traces(q questions) iter.Seq2[Verdict, error] {
	return func(yield func(Verdict, error) bool) {
		for _, probe := range q.trace {
			from, to, err := j.ends(probe)
			if err != nil {
				yield(Verdict{}, err)
				return
			}
			if !j.judged(from, to) {
				continue
			}
			if !yield(j.verdict(from, to, probe.port)) {
				return
			}
		}
	}
}

// check finds what is wrong with questions before they are answered, and returns the rows
// of their matrices.
func (j judge) check(q questions) ([]gridRow, error) {
	for _, probe := range q.trace {
		if _, _, err := j.ends(probe); err != nil {
			return nil, err
		}
	}
	if len(q.matrix) == 0 {
		return nil, nil
	}
	rows, err := j.rows(q.all)
	if err == nil {
		err = j.checkSize(rows, q)
	}
	return rows, err
}

// ofOtherNode reports whether a connection comes from the address of a node that is not known
// to be the pod's own, although all of them may come in here: each pod is on every node.
func (j judge) ofOtherNode(from, to explain.End) bool {
	addrs := j.cluster.Dump().NodeAddrs
	if j.node != "" || len(addrs) < 2 || to.Pod() == nil || to.Pod().HostNetwork || !slices.Contains(addrs, from.Addr().String()) {
		return false
	}
	return !slices.Contains(j.own[to.Pod().Pod], from.Addr())
}

func (j judge) ends(p probe) (from, to explain.End, err error) {
	if from, err = j.cluster.End(p.from); err == nil {
		to, err = j.cluster.End(p.to)
	}
	if err != nil {
		err = fmt.Errorf("trace %s->%s: %w", p.from, p.to, err)
	}
	return from, to, err
}

// matrix answers for every ordered pair and reports whether to go on.
func (j judge) matrix(ctx context.Context, rows []gridRow, p port, yield func(Verdict, error) bool) bool {
	return j.pairs(rows, func(from, to int, a, b explain.End) bool {
		if err := ctx.Err(); err != nil {
			yield(Verdict{}, err)
			return false
		}
		v, err := j.verdict(a, b, p)
		v.From, v.To = rows[from].name, rows[to].name
		return yield(v, err)
	})
}

// judged reports whether there is anything to say about a pair here: with a
// node, one end must be a pod there.
func (j judge) judged(from, to explain.End) bool {
	return j.node == "" || local(from.Pod()) || local(to.Pod())
}

func local(p *state.Pod) bool { return p != nil && p.Local }

// verdict asks both ends.
func (j judge) verdict(from, to explain.End, p port) (Verdict, error) {
	v := Verdict{From: from.Name, To: to.Name, Port: p.number, Protocol: p.protocol, fromOther: j.ofOtherNode(from, to)}
	egress, ingress := j.cluster.Between(from, to, p.number, p.protocol)
	halves, err := j.judgedHere(from, to, egress, ingress)
	if err != nil {
		return Verdict{}, err
	}
	v.Egress, v.Ingress = j.side(halves[0]), j.side(halves[1])
	v.Allowed = whole(v.Egress, v.Ingress)
	return v, nil
}

// whole joins the verdicts of both ends. If only one end is judged and allows, the verdict is unknown.
func whole(egress, ingress *Side) *bool {
	yes, no := true, false
	switch {
	case egress != nil && !egress.Allowed, ingress != nil && !ingress.Allowed:
		return &no
	case egress == nil || ingress == nil:
		return nil
	}
	return &yes
}

// side is what one end says; nil where it is not judged.
func (j judge) side(half *explain.Half) *Side {
	if half == nil {
		return nil
	}
	return &Side{Allowed: half.Actual == explain.Allowed, Decider: j.cluster.Decider(*half), Rules: half.Rules}
}

// judgedHere returns what each end says, nil where that is not known here: a pod of another node is
// judged there, and nowhere else, also where nothing is filtered. It fails where it should be known.
func (j judge) judgedHere(from, to explain.End, egress, ingress explain.Half) (halves [2]*explain.Half, err error) {
	ends, said := [2]explain.End{from, to}, [2]*explain.Half{&egress, &ingress}
	for i, e := range ends {
		switch p := e.Pod(); {
		case p != nil && !p.Local, i == 1 && j.ofOtherNode(from, to):
		case said[i].Actual == explain.Unknown:
			return halves, fmt.Errorf("%s: what HNS has there is not known", e.Name)
		default:
			halves[i] = said[i]
		}
	}
	return halves, nil
}

package simulate

import (
	"context"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/winnpm/winnpm/pkg/controllers"
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

// gridRow is an end of a matrix: a workload, or one pod.
type gridRow struct {
	name  string
	count int
	pods  []explain.End // the first stands for all; the second, if any, for its neighbours
}

// local reports whether what a row says is judged here.
func (r gridRow) local() bool { return local(r.pods[0].Pod()) }

// rows returns the ends of a matrix, sorted: every pod that runs in the pod network, or what
// nothing tells apart of them. A pod that shares its address is a row of its own.
func (j judge) rows(all bool) ([]gridRow, error) {
	in := map[string]string{} // the workload of a pod
	if !all {
		for _, w := range explain.Workloads(j.cluster) {
			for _, p := range w.Pods {
				in[p] = w.Name
			}
		}
	}
	at := map[string]int{}
	var rows []gridRow
	for _, p := range j.cluster.Dump().Pods {
		if !networked(p) {
			continue
		}
		e, err := j.cluster.End(p.Pod)
		if err != nil {
			return nil, err
		}
		name, grouped := in[p.Pod]
		if !grouped {
			name = p.Pod
		}
		i, ok := at[name]
		switch {
		case !ok || !grouped:
			at[name] = len(rows)
			rows = append(rows, gridRow{name, 1, []explain.End{e}})
		default:
			if rows[i].count++; rows[i].count == 2 {
				rows[i].pods = append(rows[i].pods, e)
			}
		}
	}
	slices.SortStableFunc(rows, func(a, b gridRow) int { return strings.Compare(a.name, b.name) })
	return rows, nil
}

// networked reports whether a pod runs in the pod network.
func networked(p state.Pod) bool { return !p.HostNetwork && !p.Finished && p.Addr != "" }

// pairs calls each with every pair of rows that is judged here, and with a pod of each. It
// reports whether each always went on.
func (j judge) pairs(rows []gridRow, each func(from, to int, a, b explain.End) bool) bool {
	for i := range rows {
		for k := range rows {
			if !j.judgedRows(rows[i], rows[k]) || i == k && len(rows[i].pods) < 2 {
				continue
			}
			to := rows[k].pods[0]
			if i == k {
				to = rows[k].pods[1]
			}
			if !each(i, k, rows[i].pods[0], to) {
				return false
			}
		}
	}
	return true
}

func (j judge) judgedRows(from, to gridRow) bool { return j.node == "" || from.local() || to.local() }

// maxPairs is the most that one matrix has. They take some seconds; of pods that is two
// thousand, and of ten thousand it would be minutes and gigabytes.
const maxPairs = 4_000_000

// checkSize fails for matrices with too many pairs, before anything is printed.
func (j judge) checkSize(rows []gridRow, q questions) error {
	away := 0
	for _, r := range rows {
		if j.node != "" && !r.local() {
			away++
		}
	}
	pairs := len(rows)*len(rows) - away*away
	if pairs*len(q.matrix) <= maxPairs {
		return nil
	}
	what, instead := "workloads", "give --node, or ask kubectl npm trace for a pair"
	if q.all {
		what, instead = "pods", "without --all it is one of workloads; else give --node, or ask kubectl npm trace for a pair"
	}
	return fmt.Errorf("--matrix: %d %s are %d pairs for each port, more than %d in all: %s", len(rows), what, pairs, maxPairs, instead)
}

// grids fills a grid for each port, with what HNS has alone: there may be millions of cells.
func (j judge) grids(ctx context.Context, q questions, rows []gridRow) iter.Seq2[*grid, error] {
	return func(yield func(*grid, error) bool) {
		for _, p := range q.matrix {
			g := newGrid(p, rows)
			var err error
			j.pairs(rows, func(from, to int, a, b explain.End) bool {
				var c byte
				if c, err = j.cell(a, b, p); err == nil {
					err = ctx.Err()
				}
				g.put(from, to, c)
				return err == nil
			})
			if !yield(g, err) || err != nil {
				return
			}
		}
	}
}

// cell is the verdict of two pods in one letter.
func (j judge) cell(from, to explain.End, p port) (byte, error) {
	egress, ingress := j.cluster.Actual(from, to, p.number, p.protocol)
	halves, err := j.judgedHere(from, to, egress, ingress)
	if err != nil {
		return 0, err
	}
	return symbol(halves[0], halves[1]), nil
}

// Answer simulates manifests as Snapshot does, and answers a question. A question
// about a node's address is answered on the node of the pod at the other end: only there is it
// known whether it is the pod's own node, which may always come in. Answer uses only the
// options that say what to simulate.
func Answer(ctx context.Context, o Options, q explain.Question) (explain.Answer, error) {
	c, err := read(ctx, o, true)
	if err != nil {
		return explain.Answer{}, err
	}
	if o.Node == "" {
		if o.Node, err = c.judgedOn(q); err != nil {
			return explain.Answer{}, err
		}
	}
	s, err := c.simulate(ctx, o, nil)
	if err != nil {
		return explain.Answer{}, err
	}
	return explain.Explain(s.dump, q, c.Places)
}

// judgedOn returns the node on which a question has to be answered, "" for any.
func (c *cluster) judgedOn(q explain.Question) (string, error) {
	if len(c.Nodes) < 2 {
		return "", nil
	}
	from, to := c.place(q.From), c.place(q.To)
	end, name, address := to.pod, q.To, q.From
	switch {
	case from.isNode == to.isNode: // nothing is filtered on nodes
		return "", nil
	case to.isNode:
		end, name, address = from.pod, q.From, q.To
	}
	switch {
	case end == nil:
		return "", nil
	case end.Spec.NodeName == "" && address != explain.Node:
		return "", fmt.Errorf("%s is on no node yet, and %s is the address of one: say with --node where it is to run", name, address)
	}
	return end.Spec.NodeName, nil
}

// where is what an end of a question is in the cluster.
type where struct {
	isNode bool        // also a pod in the network of its node
	pod    *corev1.Pod // nil: none
}

// place finds an end of a question.
func (c *cluster) place(name string) where {
	if name == explain.Node {
		return where{isNode: true}
	}
	addr, err := netip.ParseAddr(name)
	i := slices.IndexFunc(c.Pods, func(p *corev1.Pod) bool {
		return err == nil && p.Status.PodIP == name && !controllers.OnHostNetwork(p) || p.Namespace+"/"+p.Name == name
	})
	if i >= 0 {
		p := c.Pods[i]
		return where{isNode: controllers.OnHostNetwork(p), pod: p}
	}
	return where{isNode: slices.ContainsFunc(c.Nodes, func(n *corev1.Node) bool {
		return slices.Contains(controllers.NodeAddrs(n), addr)
	})}
}

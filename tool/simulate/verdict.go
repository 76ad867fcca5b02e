package simulate

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

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
}

// Side is the verdict at one end.
type Side struct {
	Allowed bool `json:"allowed"`
	explain.Decider
}

// judge answers questions about one dump, with the verdicts of tool/explain.
type judge struct {
	cluster *explain.Cluster
	node    string
	// own are the addresses of each pod's node, as far as they are known.
	own map[string][]netip.Addr
	// brief: nobody asks for the rules that decide, as there may be millions of answers.
	brief bool
}

// answer is what each end of a connection says; nil where that is not known here.
type answer struct {
	egress, ingress *explain.Half
}

// ask asks both ends. A pod of another node is judged there, and nowhere else, also where nothing is
// filtered. It fails where an answer should be known.
func (j judge) ask(from, to explain.End, q explain.Question) (a answer, err error) {
	between := j.cluster.Between
	if j.brief {
		between = j.cluster.Actual
	}
	egress, ingress := between(from, to, q.Port, q.Protocol)
	if a.egress, err = known(from, egress); err == nil && !j.ofOtherNode(from, to) {
		a.ingress, err = known(to, ingress)
	}
	return a, err
}

// known returns what an end says; nil for a pod of another node.
func known(end explain.End, half explain.Half) (*explain.Half, error) {
	switch p := end.Pod(); {
	case p != nil && !p.Local:
		return nil, nil //nolint:nilnil // that it is not judged here is an answer
	case half.Actual == explain.Unknown:
		return nil, fmt.Errorf("%s: what HNS has there is not known", end.Name)
	}
	return &half, nil
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

// verdict returns the verdict of an answer. If only one end is judged and allows, it is unknown.
func (j judge) verdict(q explain.Question, a answer) Verdict {
	side := func(half *explain.Half) *Side {
		if half == nil {
			return nil
		}
		return &Side{Allowed: half.Actual == explain.Allowed, Decider: j.cluster.Decider(*half)}
	}
	v := Verdict{From: q.From, To: q.To, Port: q.Port, Protocol: q.Protocol, Egress: side(a.egress), Ingress: side(a.ingress)}
	blocked := v.Egress != nil && !v.Egress.Allowed || v.Ingress != nil && !v.Ingress.Allowed
	if allowed := !blocked; blocked || v.Egress != nil && v.Ingress != nil {
		v.Allowed = &allowed
	}
	return v
}

// each calls a function for every value, and ends with its first error or an error of its own.
type each[T any] func(func(T) error) error

// all answers every question, in order.
func (j judge) all(ctx context.Context, q questions, rows []gridRow) each[Verdict] {
	return func(use func(Verdict) error) error {
		for _, port := range q.matrix {
			if err := j.cells(ctx, rows, port, func(from, to int, a answer) error {
				port.From, port.To = rows[from].name, rows[to].name
				return use(j.verdict(port, a))
			}); err != nil {
				return err
			}
		}
		return j.traces(q)(use)
	}
}

// traces answers the questions about two ends.
func (j judge) traces(q questions) each[Verdict] {
	return func(use func(Verdict) error) error {
		for _, question := range q.trace {
			from, to, err := j.ends(question)
			if err != nil {
				return err
			}
			if !j.judged(from, to) {
				continue
			}
			a, err := j.ask(from, to, question)
			if err != nil {
				return err
			}
			if err := use(j.verdict(question, a)); err != nil {
				return err
			}
		}
		return nil
	}
}

// check finds what is wrong with questions before they are answered, and returns the rows
// of their matrices.
func (j judge) check(q questions) ([]gridRow, error) {
	for _, question := range q.trace {
		if _, _, err := j.ends(question); err != nil {
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

func (j judge) ends(q explain.Question) (from, to explain.End, err error) {
	if from, err = j.cluster.End(q.From); err == nil {
		to, err = j.cluster.End(q.To)
	}
	if err != nil {
		err = fmt.Errorf("trace %s->%s: %w", q.From, q.To, err)
	}
	return from, to, err
}

// judged reports whether there is anything to say about a pair here: with a
// node, one end must be a pod there.
func (j judge) judged(from, to explain.End) bool {
	return j.node == "" || local(from.Pod()) || local(to.Pod())
}

func local(p *state.PodDump) bool { return p != nil && p.Local }

// gridRow is an end of a matrix: a workload, or one pod.
type gridRow struct {
	name  string
	count int
	pods  []explain.End // the first stands for all; the second, if any, for its neighbours
}

// rows returns the ends of a matrix, sorted: every pod that runs in the pod network, or what
// nothing tells apart of them. A pod that shares its address is a row of its own.
func (j judge) rows(all bool) ([]gridRow, error) {
	var groups []explain.Workload
	if !all {
		groups = explain.Workloads(j.cluster)
	}
	grouped := map[string]bool{}
	for _, w := range groups {
		for _, p := range w.Pods {
			grouped[p] = true
		}
	}
	for _, p := range j.cluster.Dump().Pods {
		if !grouped[p.Pod] && !p.HostNetwork && !p.Finished && p.Addr != "" {
			groups = append(groups, explain.Workload{Name: p.Pod, Pods: []string{p.Pod}})
		}
	}
	slices.SortStableFunc(groups, func(a, b explain.Workload) int { return strings.Compare(a.Name, b.Name) })
	var rows []gridRow
	for _, w := range groups {
		row := gridRow{name: w.Name, count: len(w.Pods)}
		for _, pod := range w.Pods[:min(len(w.Pods), 2)] {
			e, err := j.cluster.End(pod)
			if err != nil {
				return nil, err
			}
			row.pods = append(row.pods, e)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// cells asks about every pair of rows that is judged here, with a pod of each.
func (j judge) cells(ctx context.Context, rows []gridRow, port explain.Question, use func(from, to int, a answer) error) error {
	for i := range rows {
		for k := range rows {
			from, to := rows[i].pods[0], rows[k].pods[0]
			if i == k {
				to = rows[k].pods[len(rows[k].pods)-1]
			}
			if from.Name == to.Name || !j.judged(from, to) { // a row of one pod has no neighbour
				continue
			}
			a, err := j.ask(from, to, port)
			if err := cmp.Or(err, ctx.Err()); err != nil {
				return err
			}
			if err := use(i, k, a); err != nil {
				return err
			}
		}
	}
	return nil
}

// maxPairs is the most that one matrix has. They take some seconds; of pods that is two
// thousand, and of ten thousand it would be minutes and gigabytes.
const maxPairs = 4_000_000

// checkSize fails for matrices with too many pairs, before anything is printed.
func (j judge) checkSize(rows []gridRow, q questions) error {
	away := 0
	for _, r := range rows {
		if !j.judged(r.pods[0], r.pods[0]) {
			away++
		}
	}
	pairs := len(rows)*len(rows) - away*away
	if pairs*len(q.matrix) <= maxPairs {
		return nil
	}
	return fmt.Errorf("--matrix: %d rows are %d pairs for each port, more than %d in all: leave out --all, give --node, or ask kubectl npm trace for a pair", len(rows), pairs, maxPairs)
}

// grids fills a grid for each port.
func (j judge) grids(ctx context.Context, q questions, rows []gridRow) each[*grid] {
	j.brief = true
	return func(use func(*grid) error) error {
		for _, port := range q.matrix {
			g := newGrid(port, rows)
			err := j.cells(ctx, rows, port, func(from, to int, a answer) error {
				g.put(from, to, symbol(a.egress, a.ingress))
				return nil
			})
			if err := cmp.Or(err, use(g)); err != nil {
				return err
			}
		}
		return nil
	}
}

// Answer simulates manifests, and answers a question. A question
// about a node's address is answered on the node of the pod at the other end: only there is it
// known whether it is the pod's own node, which may always come in.
func (c *Cluster) Answer(ctx context.Context, q explain.Question) (explain.Answer, error) {
	_, dump, err := c.simulate(ctx, nil)
	if err == nil && c.options.Node == "" {
		on := *c
		if on.options.Node, err = c.judgedOn(explain.New(dump), q); on.options.Node != "" {
			_, dump, err = on.simulate(ctx, nil)
		}
	}
	if err != nil {
		return explain.Answer{}, err
	}
	return explain.Explain(dump, q, c.Places)
}

// judgedOn returns the node on which a question has to be answered, "" for any.
func (c *Cluster) judgedOn(everywhere *explain.Cluster, q explain.Question) (string, error) {
	from, err := everywhere.End(q.From)
	to, err2 := everywhere.End(q.To)
	isNode := func(e explain.End) bool {
		return e.Pod() != nil && e.Pod().HostNetwork || slices.Contains(everywhere.Dump().NodeAddrs, e.Addr().String())
	}
	if err != nil || err2 != nil || len(c.Nodes) < 2 || isNode(from) == isNode(to) {
		return "", nil // nothing is filtered on nodes
	}
	end, address := to, q.From
	if isNode(to) {
		end, address = from, q.To
	}
	i := slices.IndexFunc(c.Pods, func(p *corev1.Pod) bool { return end.Pod() != nil && p.Namespace+"/"+p.Name == end.Pod().Pod })
	switch {
	case i < 0:
		return "", nil
	case c.Pods[i].Spec.NodeName == "" && address != explain.Node:
		return "", fmt.Errorf("%s is on no node yet, and %s is the address of one: say with --node where it is to run", end.Name, address)
	}
	return c.Pods[i].Spec.NodeName, nil
}

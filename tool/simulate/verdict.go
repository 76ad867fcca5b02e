package simulate

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

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
	Allowed  *bool           `json:"allowed"` // nil: unknown, because an end is not judged and the other end allows it
	Ingress  *Side           `json:"ingress"` // at To; nil: not judged, because To is on another node
	Egress   *Side           `json:"egress"`  // at From
}

// Side is the verdict at one end.
type Side struct {
	Allowed bool `json:"allowed"`
	explain.Decider
}

// judge answers questions about one dump with package explain.
type judge struct {
	cluster *explain.Cluster
	node    string
	// nodeAddrs maps pods to the addresses of their node, if known.
	nodeAddrs map[string][]netip.Addr
}

// answer is the verdicts at both ends of a connection; nil for an end that is not judged here.
type answer struct {
	egress, ingress *explain.Half
}

// ask returns the verdicts at both ends. It does not judge the end of a pod on another node. It fails if
// the verdict at a judged end is unknown.
func (j judge) ask(from, to explain.End, q explain.Question) (a answer, err error) {
	egress, ingress := j.cluster.Between(from, to, q.Port, q.Protocol)
	if a.egress, err = known(from, egress); err == nil && !j.fromOtherNode(from, to) {
		a.ingress, err = known(to, ingress)
	}
	return a, err
}

// known returns the verdict at an end; nil for a pod on another node. It fails if the verdict is unknown.
func known(end explain.End, half explain.Half) (*explain.Half, error) {
	switch p := end.Pod(); {
	case p != nil && !p.Local:
		return nil, nil //nolint:nilnil // nil means not judged here
	case half.Actual == explain.Unknown:
		return nil, fmt.Errorf("%s: what HNS has there is not known", end.Name)
	}
	return &half, nil
}

// fromOtherNode reports whether a connection comes from the address of a node that is not known to be the
// destination pod's. In a simulation of several nodes every pod allows all node addresses, but on its node
// it allows only that node's.
func (j judge) fromOtherNode(from, to explain.End) bool {
	addrs := j.cluster.Dump().NodeAddrs
	if j.node != "" || len(addrs) < 2 || to.Pod() == nil || to.Pod().HostNetwork || !slices.Contains(addrs, from.Addr().String()) {
		return false
	}
	return !slices.Contains(j.nodeAddrs[to.Pod().Pod], from.Addr())
}

// verdict returns the verdict of an answer. It is unknown if only one end is judged and allows the
// connection.
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

// verdicts calls use with the verdict of each cell of the matrices, and then with those of the traces.
func (r Result) verdicts(ctx context.Context, use func(Verdict) error) error {
	for _, port := range r.matrix {
		if err := r.judge.cells(ctx, r.rows, port, func(from, to int, a answer) error {
			port.From, port.To = r.rows[from].name, r.rows[to].name
			return use(r.judge.verdict(port, a))
		}); err != nil {
			return err
		}
	}
	for _, v := range r.Traces {
		if err := use(v); err != nil {
			return err
		}
	}
	return nil
}

// traces answers the questions about two ends, without those that are not judged here.
func (j judge) traces(questions []explain.Question) (out []Verdict, err error) {
	for _, q := range questions {
		from, to, err := j.ends(q)
		if err != nil {
			return nil, err
		}
		if !j.judged(from, to) {
			continue
		}
		a, err := j.ask(from, to, q)
		if err != nil {
			return nil, err
		}
		out = append(out, j.verdict(q, a))
	}
	return out, nil
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

// judged reports whether an end of the pair is judged. In a simulation of one node, one end must be a pod
// on it.
func (j judge) judged(from, to explain.End) bool {
	return j.node == "" || local(from.Pod()) || local(to.Pod())
}

func local(p *state.PodDump) bool { return p != nil && p.Local }

// gridRow is a row and column of a matrix: a workload, or one pod.
type gridRow struct {
	name  string
	count int
	pods  []explain.End // one or two: the first represents the workload, and the second is the destination of connections within it
}

// rows returns the rows of the matrices, sorted: all running pods in the pod network, as workloads unless
// q.all is set. A pod that shares its address has a row of its own. It fails if the matrices have too many pairs.
func (j judge) rows(q questions) ([]gridRow, error) {
	if len(q.matrix) == 0 {
		return nil, nil
	}
	var groups []explain.Workload
	if !q.all {
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
	return rows, j.checkSize(rows, q)
}

// cells answers a question for every pair of rows that is judged here, with a pod of each row.
func (j judge) cells(ctx context.Context, rows []gridRow, port explain.Question, use func(from, to int, a answer) error) error {
	for i := range rows {
		for k := range rows {
			from, to := rows[i].pods[0], rows[k].pods[0]
			if i == k {
				to = rows[k].pods[len(rows[k].pods)-1]
			}
			if from.Name == to.Name || !j.judged(from, to) { // or a pod and itself
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

// maxPairs limits the pairs of all matrices of a run. So many take some seconds, and are two thousand pods;
// ten thousand pods would take minutes and gigabytes.
const maxPairs = 4_000_000

// checkSize fails if the matrices have too many pairs.
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

package simulate

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/explain"
)

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
		for _, w := range j.workloads() {
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

// workloads are those of the cluster.
func (j judge) workloads() []explain.Workload { return explain.Workloads(j.cluster) }

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

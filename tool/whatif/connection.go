package whatif

import (
	"github.com/winnpm/winnpm/tool/explain"
)

// answer is the verdict of a connection and what its ends say.
type answer struct {
	verdict explain.Verdict
	halves  [2]explain.Half
}

// connection is what a cluster is asked about: two ends, on one port after the other.
type connection struct {
	pair  *explain.Pair
	there bool // both ends
}

// newConnection takes two ends, both of which may be there, or not.
func newConnection(c *explain.Cluster, from, to string, there bool) connection {
	x := connection{there: there}
	if !there {
		return x
	}
	source, err := c.End(from)
	if err != nil { // of a pod whose name means something else
		return x
	}
	destination, err := c.End(to)
	if err != nil {
		return x
	}
	x.pair = c.Pair(source, destination)
	return x
}

// edges returns the ports at which the answer may change.
func (x connection) edges() explain.Edges {
	if x.pair == nil {
		return explain.Edges{}
	}
	return x.pair.Edges()
}

// ask asks about the first port of a range.
func (x connection) ask(r explain.Range) answer {
	switch {
	case !x.there:
		return answer{verdict: Absent}
	case x.pair == nil:
		return answer{verdict: explain.Unknown}
	}
	egress, ingress := x.pair.Halves(r.First, r.Protocol)
	actual, _ := explain.Whole(egress, ingress)
	return answer{actual, [2]explain.Half{out: egress, in: ingress}}
}

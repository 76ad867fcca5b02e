package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/winnpm/winnpm/pkg/cli"
)

// inForce says whether a policy is in force on a node.
type inForce string

const (
	nodeInForce    inForce = "inForce"
	nodeNotInForce inForce = "notInForce"
	nodeUnknown    inForce = "unknown"
)

// code returns the exit code of a node. A higher one is worse.
func (f inForce) code() int {
	return map[inForce]int{nodeInForce: exitAllowed, nodeNotInForce: exitBlocked, nodeUnknown: exitUnknown}[f]
}

// nodeCheck is the state of a policy on one node.
type nodeCheck struct {
	Node  string  `json:"node"`
	State inForce `json:"state"`
	Why   string  `json:"why,omitempty"` // the reason if it is not in force or unknown
}

// checked is the state of a policy on all nodes, the worst first.
type checked struct {
	Policy string      `json:"policy"`
	Nodes  []nodeCheck `json:"nodes"`
	Note   string      `json:"note,omitempty"` // which nodes were not looked for
}

func (c checked) on(f inForce) int {
	n := 0
	for _, node := range c.Nodes {
		if node.State == f {
			n++
		}
	}
	return n
}

// code returns the exit code of the worst node, which is the first.
func (c checked) code() int {
	if c.Note != "" {
		return exitUnknown
	}
	return c.Nodes[0].State.code()
}

// write prints only the name of the policy for -o name, or else the state on each node.
func (c checked) write(w io.Writer, form string) error {
	if form == "name" {
		_, name, _ := strings.Cut(c.Policy, "/")
		_, err := fmt.Fprintln(w, "networkpolicy.networking.k8s.io/"+name)
		return err
	}
	var b cli.Page
	unknown := ""
	if n := c.on(nodeUnknown); n > 0 {
		unknown = fmt.Sprintf(", UNKNOWN on %d", n)
	}
	b.Line(0, "NetworkPolicy %s: in force on %d of %d nodes%s", c.Policy, c.on(nodeInForce), len(c.Nodes), unknown)
	for _, n := range c.Nodes {
		switch {
		case n.State == nodeUnknown:
			b.Line(1, "%s: UNKNOWN: %s", n.Node, n.Why)
		case n.State == nodeNotInForce:
			b.Line(1, "%s: %s", n.Node, n.Why)
		case form == "wide":
			b.Line(1, "%s: in force", n.Node)
		}
	}
	if c.Note != "" {
		b.Line(0, "%s", c.Note)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

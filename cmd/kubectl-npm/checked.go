package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
)

// inForce says whether a policy is in force on a node.
type inForce string

const (
	nodeInForce    inForce = "inForce"
	nodeNotInForce inForce = "notInForce"
	nodeUnknown    inForce = "unknown"
)

// code is the exit code of a node. The higher one is the worse.
func (f inForce) code() int {
	switch f {
	case nodeInForce:
		return 0
	case nodeNotInForce:
		return exitBlocked
	case nodeUnknown:
	}
	return exitUnknown
}

// nodeCheck is what is known of a policy on one node.
type nodeCheck struct {
	Node  string  `json:"node"`
	State inForce `json:"state"`
	Why   string  `json:"why,omitempty"` // where it is not in force, or nobody knows
}

// checked is where a policy is in force, the worst node first.
type checked struct {
	Policy string      `json:"policy"`
	Nodes  []nodeCheck `json:"nodes"`
	Note   string      `json:"note,omitempty"` // what was not looked for
}

// on counts the nodes of a state.
func (c checked) on(f inForce) int {
	n := 0
	for _, node := range c.Nodes {
		if node.State == f {
			n++
		}
	}
	return n
}

// left reports whether waiting may change something. What one may not look for, it does not.
func (c checked) left() bool { return c.on(nodeInForce) < len(c.Nodes) }

func (c checked) code() int {
	code := 0
	for _, n := range c.Nodes {
		code = max(code, n.State.code())
	}
	if c.Note != "" {
		return exitUnknown
	}
	return code
}

// write prints the name of the policy for scripts, or for people where it is in force.
func (c checked) write(w io.Writer, form string) error {
	if form == "name" {
		_, name, _ := strings.Cut(c.Policy, "/")
		_, err := fmt.Fprintln(w, "networkpolicy.networking.k8s.io/"+name)
		return err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "NetworkPolicy %s: in force on %d of %d nodes", c.Policy, c.on(nodeInForce), len(c.Nodes))
	if n := c.on(nodeUnknown); n > 0 {
		fmt.Fprintf(&b, ", UNKNOWN on %d", n)
	}
	fmt.Fprintln(&b)
	for _, n := range c.Nodes {
		switch {
		case n.State == nodeUnknown:
			fmt.Fprintf(&b, "  %s: UNKNOWN: %s\n", n.Node, n.Why)
		case n.State == nodeNotInForce:
			fmt.Fprintf(&b, "  %s: %s\n", n.Node, n.Why)
		case form == "wide":
			fmt.Fprintf(&b, "  %s: in force\n", n.Node)
		}
	}
	if c.Note != "" {
		fmt.Fprintln(&b, c.Note)
	}
	_, err := w.Write(b.Bytes())
	return err
}

package torture

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/hnsfault"
)

// left reads a line of what Azure NPM left in HNS:
//
//	left set NAME [ADDR...]
//	left nested NAME LEAF...
//	left rule ENDPOINT ID allow|block in|out PRIORITY [sets=NAME,...] [remote=ADDR] [ports=N]
func (p *parser) left(args []string) error {
	if !p.azure || len(args) < 2 {
		return fmt.Errorf("left %q: what, and was Azure NPM here?", args)
	}
	switch args[0] {
	case "set":
		p.leftSet(hns.SetPolicy{Name: args[1], Type: hns.IPSet, Values: args[2:]})
	case "nested":
		s := hns.SetPolicy{Name: args[1], Type: hns.NestedIPSet}
		for _, leaf := range args[2:] {
			s.Values = append(s.Values, hnsfault.DerivedID(leaf))
		}
		p.leftSet(s)
	case "rule":
		return p.leftRule(args[1], args[2:])
	default:
		return fmt.Errorf("left what: %q", args[0])
	}
	return nil
}

func (p *parser) leftSet(s hns.SetPolicy) {
	s.ID = hnsfault.DerivedID(s.Name)
	p.add(step{do: left, id: s.Name, by: func(r *replay) { require.NoError(r.t, r.sim.PutSet(s)) }})
}

func (p *parser) leftRule(endpoint string, args []string) error {
	if len(args) < 4 {
		return fmt.Errorf("rule %q is too short", args)
	}
	priority, err := strconv.ParseUint(args[3], 10, 16)
	if err != nil {
		return err
	}
	a := hns.ACL{
		ID: args[0], RuleType: hns.Switch, Priority: uint16(priority),
		Action:    map[string]hns.Action{"allow": hns.Allow, "block": hns.Block}[args[1]],
		Direction: map[string]hns.Direction{"in": hns.In, "out": hns.Out}[args[2]],
	}
	for _, arg := range args[4:] {
		key, value, _ := strings.Cut(arg, "=")
		switch {
		case key == "remote":
			a.RemoteAddresses = value
		case key == "ports" && a.Direction == hns.In:
			a.Protocols, a.LocalPorts = "6", value
		case key == "ports":
			a.Protocols, a.RemotePorts = "6", value
		case key == "sets":
			names := strings.Split(value, ",")
			for i, name := range names {
				names[i] = hnsfault.DerivedID(name)
			}
			// Local is the source, Remote the destination.
			if a.Direction == hns.In {
				a.LocalAddresses = strings.Join(names, ",")
			} else {
				a.RemoteAddresses = strings.Join(names, ",")
			}
		default:
			return fmt.Errorf("unknown part of a rule %q", arg)
		}
	}
	p.add(step{do: left, id: endpoint + " " + a.ID, by: func(r *replay) {
		e, ok := r.sim.Endpoint(endpoint)
		require.True(r.t, ok, endpoint)
		require.NoError(r.t, r.sim.SetPolicies(endpoint, append(slices.Clone(e.Policies), hns.NewACLPolicy(a))))
	}})
	return nil
}

// inherit ends the given part of a node that Azure NPM has left: it had all of
// these events in HNS, and no process of ours has run.
func (r *replay) inherit(events []event) {
	for _, e := range events {
		r.todo.change(e)
	}
	r.todo.done()
	r.away = true
	r.check("as Azure NPM left it")
	r.watch.reached(r.sim, cluster(r.todo.now.values()))
	r.checkProgrammed()
}

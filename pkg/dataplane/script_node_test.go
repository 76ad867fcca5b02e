package dataplane_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// nodeCommand runs the commands that set up the dataplane and those that are
// the hand of somebody else on the node.
func (s *script) nodeCommand(name string, args []string) error {
	switch name {
	case "dataplane": // dataplane [dryrun] [batch=N] [repairs=N] [grace=D]: a new one, on the same node
		return s.restart(args)
	case "settle": // settle: apply until nothing is due, letting time pass
		s.settle()
	case "writes": // writes FILE: what HNS was asked to write in the last apply, in order
		return s.compare(args[0], s.writesText())
	case "before": // before OP TARGET COMMAND...: run a command right before the next such call
		if s.armed {
			return fmt.Errorf("the command before has not run")
		}
		s.before(args[0], strings.Trim(args[1], "*"), args[2:])
	case "state": // state ENDPOINT NAME: HNS moves an endpoint to another state
		for state := hnssim.Created; state <= hnssim.Destroyed; state++ {
			if state.String() == args[1] {
				return s.sim.SetState(args[0], state)
			}
		}
		return fmt.Errorf("unknown state %q", args[1])
	case "foreign": // foreign ENDPOINT TYPE JSON: somebody adds a policy
		return s.sim.SetPolicies(args[0], append(s.policiesOf(args[0]),
			hns.EndpointPolicy{Type: args[1], Settings: []byte(strings.Join(args[2:], " "))}))
	case "drop-acl": // drop-acl ENDPOINT ID: somebody removes rules; - for those without Id
		return s.sim.SetPolicies(args[0], slices.DeleteFunc(s.policiesOf(args[0]), func(p hns.EndpointPolicy) bool {
			a, err := p.ACL()
			return err == nil && a.ID == strings.Trim(args[1], "-")
		}))
	case "put-set": // put-set NAME IPSET|NESTEDIPSET VALUES [ID]: somebody writes a set; of a nested one names
		return s.sim.PutSet(foreignSet(args))
	case "drop-set": // drop-set NAME: somebody removes a set
		for _, set := range s.sim.Sets() {
			if set.Name == args[0] {
				return s.sim.DropSet(set.ID)
			}
		}
		return fmt.Errorf("no set %s", args[0])
	case "restart-hns": // restart-hns: HNS loses all sets and our rules
		s.sim.Restart()
	case "reject": // reject set NAME ADDR | reject port NUMBER | reject nothing
		s.reject(args)
	default:
		return fmt.Errorf("unknown command %q", name)
	}
	return nil
}

// restart starts another dataplane on the same node.
func (s *script) restart(args []string) error {
	cfg := dataplane.Config{Client: s.sim, Node: "n1", Now: s.clock, MaxBatchedACLs: 30}
	for _, arg := range args {
		key, value, _ := strings.Cut(arg, "=")
		var err error
		switch key {
		case "dryrun":
			cfg.DryRun = true
		case "batch":
			cfg.MaxBatchedACLs, err = strconv.Atoi(value)
		case "repairs":
			cfg.MaxRepairs, err = strconv.Atoi(value)
		case "grace":
			cfg.GracePeriod, err = time.ParseDuration(value)
		default:
			err = fmt.Errorf("unknown option %q", arg)
		}
		if err != nil {
			return err
		}
	}
	s.dp, s.tx = dataplane.New(cfg), dataplane.NewTransaction()
	return nil
}

// before arms a hook that runs a command once. The target is an endpoint, or a
// set of the request.
func (s *script) before(op, target string, args []string) {
	s.armed = true
	s.sim.OnCall(func(c hnsfault.Call, when hnsfault.When) {
		if !s.armed || when != hnsfault.Before || c.Op != op {
			return
		}
		if target == "" || target == c.Target || slices.ContainsFunc(c.Sets, func(p hns.SetPolicy) bool { return p.Name == target }) {
			s.armed = false
			s.do(strings.Join(args, " "))
		}
	})
}

// policiesOf returns what an endpoint has.
func (s *script) policiesOf(id string) []hns.EndpointPolicy {
	for _, e := range s.sim.Endpoints() {
		if e.ID == id {
			return e.Policies
		}
	}
	s.t.Fatalf("no endpoint %s", id)
	return nil
}

// setNames parses the readable names that scripts use.
var setNames = map[string]func(string) ipsets.Name{
	"ns-":      ipsets.Namespace,
	"empty-":   func(string) ipsets.Name { return ipsets.Empty() },
	"nslabel-": func(text string) ipsets.Name { k, v, _ := strings.Cut(text, ":"); return ipsets.NamespaceLabel(k, v) },
	"podlabel-": func(text string) ipsets.Name {
		if k, v, ok := strings.Cut(text, ":"); ok {
			return ipsets.PodLabel(k, v)
		}
		return ipsets.PodLabelKey(text)
	},
}

// setID returns the id that follows from a set's readable name.
func setID(name string) string {
	for prefix, parse := range setNames {
		if text, ok := strings.CutPrefix(name, prefix); ok {
			return parse(text).ID()
		}
	}
	return name
}

func foreignSet(args []string) hns.SetPolicy {
	p := hns.SetPolicy{ID: setID(args[0]), Name: args[0], Type: hns.SetType(args[1])}
	for v := range strings.SplitSeq(args[2], ",") {
		if p.Type == hns.NestedIPSet {
			v = setID(v)
		}
		p.Values = append(p.Values, v)
	}
	if len(args) > 3 {
		p.ID = args[3]
	}
	return p
}

func (s *script) reject(args []string) {
	switch args[0] {
	case "set":
		s.sim.RejectSet(func(p hns.SetPolicy) bool { return p.Name == args[1] && slices.Contains(p.Values, args[2]) })
	case "port":
		s.sim.RejectACL(func(a hns.ACL) bool { return a.LocalPorts == args[1] || a.RemotePorts == args[1] })
	default:
		s.sim.RejectSet(nil)
		s.sim.RejectACL(nil)
	}
}

// writesText renders the writes since the last apply began, with the names of
// sets in place of their ids.
func (s *script) writesText() string {
	names := map[string]string{}
	for _, set := range s.sim.Sets() {
		names[set.ID] = set.Name
	}
	for _, c := range s.sim.Calls() {
		for _, set := range c.Sets {
			names[set.ID] = set.Name
		}
	}
	readable := func(list string) string {
		texts := strings.Split(list, ",")
		for i, text := range texts {
			if name, ok := names[text]; ok {
				texts[i] = name
			}
		}
		slices.Sort(texts)
		return strings.Join(texts, ",")
	}
	var b strings.Builder
	for _, c := range s.sim.Calls() {
		if !isWrite(c.Op) {
			continue
		}
		b.WriteString(c.Op)
		if strings.HasPrefix(c.Op, "ACL/") {
			b.WriteString(" " + c.Target)
		}
		if c.Err != nil {
			b.WriteString(" failed")
		}
		b.WriteString("\n")
		for _, set := range c.Sets {
			fmt.Fprintf(&b, "  %s\n", strings.TrimRight(set.Name+" "+readable(strings.Join(set.Values, ",")), " "))
		}
		for _, a := range c.ACLs {
			a.LocalAddresses, a.RemoteAddresses = readable(a.LocalAddresses), readable(a.RemoteAddresses)
			fmt.Fprintf(&b, "  %s\n", acl.RuleText(a))
		}
		if others := len(c.Policies) - len(c.ACLs); others > 0 {
			fmt.Fprintf(&b, "  and %d of others\n", others)
		}
	}
	return b.String()
}

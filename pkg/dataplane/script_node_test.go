package dataplane_test

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// nodeCommand runs the commands that restart the dataplane, change HNS, or check what was written.
func (w *world) nodeCommand(name string, args, words []string) error {
	switch name {
	case "restart": // restart [calico] [dryrun] [unchecked] [batch=N] [repairs=N] [acls=N] [grace=D]: starts another dataplane on the same node
		return w.restart(args)
	case "settle": // settle: apply until nothing is due, letting time pass
		w.settle()
	case "writes": // writes FILE: what HNS was asked to write in the last apply, in order
		return w.compare(args[0], w.writesText())
	case "fault": // fault OP TARGET refuse|lose|half [nth=N] [times=N] [code=HEX] [gone|elsewhere|conflict|unlisted|invalid]
		w.fault(args)
	case "before", "after": // before|after OP TARGET COMMAND...: run a command right before or after the next such call
		if w.armed {
			return fmt.Errorf("the command before has not run")
		}
		w.beside(map[string]hnsfault.When{"before": hnsfault.Before, "after": hnsfault.After}[name], args[0], strings.Trim(args[1], "*"), args[2:])
	case "slow": // slow DURATION: each write takes so long from now on
		w.takes(must(time.ParseDuration(args[0])))
	case "code": // code HEX: HNS gives this code for everything that it rejects
		code := uint32(must(strconv.ParseUint(args[0], 16, 32)))
		w.sim.SetPersonality(hnsfault.Personality{Code: func(*hns.OpError) uint32 { return code }})
	case "shows": // shows OLD NEW: HNS shows rules with one text in place of another
		w.sim.SetPersonality(hnsfault.Personality{Show: func(_ string, out *hns.Result) {
			for i, p := range out.Endpoint.Policies {
				out.Endpoint.Policies[i].Settings = bytes.ReplaceAll(p.Settings, []byte(args[0]), []byte(args[1]))
			}
		}})
	case "documented": // documented: HNS takes no fields that are not documented
		w.sim.SetPersonality(hnsfault.Personality{Refuse: hnsfault.OnlyDocumented})
	case "clear": // clear ENDPOINT: another program takes all our rules away
		w.clear(args[0])
	case "yield": // yield N: the next transaction yields when it is asked for the N-th time
		w.tx.Yield = after(must(strconv.Atoi(args[0])))
	case "netns": // netns ENDPOINT ID: HNS shows its namespace from now on
		return w.sim.SetNetns(args[0], args[1])
	case "state": // state ENDPOINT NAME: HNS moves an endpoint to another state
		for state := hnssim.Created; state <= hnssim.Destroyed; state++ {
			if state.String() == args[1] {
				return w.sim.SetState(args[0], state)
			}
		}
		return fmt.Errorf("unknown state %q", args[1])
	case "watch": // watch ADDR,... PORT...: the packets between these and the endpoints after each write
		return w.watch(args)
	case "changes": // changes N: verdicts that changed since watch, each only once
		return w.changes(args[0])
	case "early": // early: HNS takes rules for endpoints before they are attached
		w.sim.SetPersonality(hnsfault.Personality{Early: true})
	case "new-endpoint": // new-endpoint ID ADDR [NETNS]: nothing uses it yet
		return w.sim.CreateEndpoint(hnssim.SimEndpoint{
			ID: args[0], Addrs: []netip.Addr{netip.MustParseAddr(args[1])}, State: hnssim.Created, Netns: strings.Join(args[2:], ""),
		})
	case "reject": // reject set NAME [ADDR] | reject long-names | reject rule ID | reject port NUMBER | reject nothing
		w.reject(args)
	default:
		return w.check(name, args, words)
	}
	return nil
}

// fault makes a call fail.
func (w *world) fault(args []string) {
	modes := map[string]hnsfault.Mode{"refuse": hnsfault.Refuse, "lose": hnsfault.LoseReply, "half": hnsfault.Half}
	classes := map[string]error{"gone": hns.ErrNotFound, "elsewhere": hns.ErrElsewhere, "conflict": hns.ErrConflict, "unlisted": hns.ErrUnlisted, "invalid": hns.ErrInvalid}
	mode, known := modes[args[2]]
	require.True(w.t, known, args[2])
	f := hnsfault.Fault{Op: args[0], Target: strings.Trim(args[1], "*"), Mode: mode}
	for _, arg := range args[3:] {
		switch key, value, _ := strings.Cut(arg, "="); key {
		case "nth":
			f.Nth = must(strconv.Atoi(value))
		case "times":
			f.Times = must(strconv.Atoi(value))
		case "code":
			f.Code = uint32(must(strconv.ParseUint(value, 16, 32)))
		default:
			require.Contains(w.t, classes, arg)
			f.Err = classes[arg]
		}
	}
	if f.Err != nil && f.Code != 0 { // a class that does not follow from the code
		f.Err, f.Code = &hns.OpError{Op: f.Op, Kind: hns.KindSet, ID: f.Target, Code: f.Code, Err: f.Err}, 0
	}
	w.sim.Inject(f)
}

// restart starts another process on the same node.
func (w *world) restart(args []string) (err error) {
	w.start(func(cfg *dataplane.Config) {
		for _, arg := range args {
			switch key, value, _ := strings.Cut(arg, "="); key {
			case "calico":
				onCalico(cfg)
			case "dryrun":
				cfg.DryRun = true
			case "unchecked":
				cfg.Unchecked = true
			case "batch":
				cfg.MaxBatchedACLs, err = strconv.Atoi(value)
			case "repairs":
				cfg.MaxRepairs, err = strconv.Atoi(value)
			case "acls":
				cfg.Budgets.ACLs, err = strconv.Atoi(value)
			case "grace":
				cfg.GracePeriod, err = time.ParseDuration(value)
			default:
				err = fmt.Errorf("unknown option %q", arg)
			}
			if err != nil {
				return
			}
		}
	})
	return err
}

// beside arms a hook that runs a command once, before or after a call. The target is an endpoint,
// or a set of the request.
func (w *world) beside(side hnsfault.When, op, target string, args []string) {
	w.armed = true
	w.sim.OnCall(func(c hnsfault.Call, when hnsfault.When) {
		if !w.armed || when != side || c.Op != op {
			return
		}
		if target == "" || target == c.Target || slices.ContainsFunc(c.Sets, func(p hns.SetPolicy) bool { return p.Name == target }) {
			w.armed = false
			w.do(strings.Join(args, " "))
		}
	})
}

func (w *world) watch(args []string) error {
	var ports []uint16
	for _, arg := range args[1:] {
		port, err := strconv.ParseUint(arg, 10, 16)
		if err != nil {
			return err
		}
		ports = append(ports, uint16(port))
	}
	w.sim.Watch(probes(w.sim, strings.Split(args[0], ","), ports...)...)
	return nil
}

// changes checks that each verdict was always that of the watch's beginning or that of its end.
func (w *world) changes(want string) error {
	changed := map[probe]int{}
	for _, x := range w.sim.Transitions() {
		if changed[x.Probe]++; changed[x.Probe] > 1 {
			return fmt.Errorf("%+v changed twice", x)
		}
	}
	if got := strconv.Itoa(len(changed)); got != want {
		return fmt.Errorf("%s verdicts changed, want %s", got, want)
	}
	return nil
}

// policiesOf returns what an endpoint has.
func (w *world) policiesOf(id string) []hns.EndpointPolicy {
	e, ok := w.sim.Endpoint(id)
	require.True(w.t, ok, "no endpoint %s", id)
	return e.Policies
}

func (w *world) reject(args []string) {
	switch args[0] {
	case "set":
		w.sim.RejectSet(func(p hns.SetPolicy) bool {
			return p.Name == args[1] && (len(args) == 2 || slices.Contains(p.Values, args[2]))
		})
	case "long-names":
		w.sim.RejectSet(func(p hns.SetPolicy) bool { return len(p.Name) > ipsets.MaxName })
	case "rule":
		w.sim.RejectACL(func(a hns.ACL) bool { return a.ID == args[1] })
	case "port":
		w.sim.RejectACL(func(a hns.ACL) bool { return a.LocalPorts == args[1] || a.RemotePorts == args[1] })
	default:
		w.sim.RejectSet(nil)
		w.sim.RejectACL(nil)
	}
}

// writesText renders the writes since the last apply began, with the names of
// sets in place of their ids.
func (w *world) writesText() string {
	names := map[string]string{}
	for _, set := range w.sim.Sets() {
		names[set.ID] = set.Name
	}
	for _, c := range w.sim.Calls() {
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
	for _, c := range w.sim.Calls() {
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

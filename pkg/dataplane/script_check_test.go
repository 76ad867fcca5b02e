package dataplane_test

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/test/script"
)

// check runs the commands that look at what the last apply came to, or at HNS.
func (w *world) check(name string, args, words []string) error {
	switch name {
	case "reads": // reads [OP=N]...: how often the last apply made each of these calls; without one: it made no call
		return counted(w.report.Calls, args)
	case "total": // total OP=N...: how often all of the node's transactions made each of these calls
		return counted(w.total, args)
	case "errors": // errors TEXT: there are some in the last report, and each has this in it
		for _, err := range w.report.Errors {
			if err := contains("error", err, strings.Join(args, " ")); err != nil {
				return err
			}
		}
		require.NotEmpty(w.t, w.report.Errors)
	case "programmed": // programmed: nothing waits to be enforced
		return same("the first change that is not programmed", "0", strconv.FormatUint(w.report.Unprogrammed, 10))
	case "endpoints": // endpoints [ID=[NS/POD]]...: those that are known, and whose they are
		var got []string
		for _, ep := range w.dp.Dump().Endpoints {
			got = append(got, ep.ID+"="+ep.Pod)
		}
		return same("endpoints", strings.Join(args, " "), strings.Join(got, " "))
	case "waiting": // waiting [N]: the last report says that updates wait for it, and for the N transactions before it
		want := []state.Span(nil)
		if len(args) > 0 {
			want = []state.Span{{From: w.report.Generation - must(strconv.ParseUint(args[0], 10, 64)), To: w.report.Generation}}
		}
		return same("changes that wait", fmt.Sprint(want), fmt.Sprint(w.report.Waiting))
	case "wrote": // wrote ENDPOINT N ID...: the rules in the N-th write of the last apply to it
		return same("rules", fmt.Sprint(args[2:]), fmt.Sprint(w.wrote(args[0])[must(strconv.Atoi(args[1]))-1]))
	case "repairs": // repairs FILE: of the last apply
		var b strings.Builder
		for _, r := range w.report.Repairs {
			fmt.Fprintf(&b, "%s %s %s: %s\n", r.Kind, r.Object, r.Pod, r.Found)
		}
		return w.compare(args[0], b.String())
	case "warned": // warned [OBJECT|*]...: what the warnings of the last report are about
		got := objects(w.report)
		for i := range min(len(got), len(args)) {
			if args[i] == "*" {
				got[i] = "*"
			}
		}
		return same("warnings", strings.Join(args, " "), strings.Join(got, " "))
	case "warning": // warning TEXT: is in a warning of the last report, KIND OBJECT REASON: MESSAGE
		return contains("warnings", w.warnings(), strings.Join(args, " "))
	case "has": // has ENDPOINT TEXT: is in one of its policies
		e, _ := w.sim.Endpoint(args[0])
		return contains("policies", fmt.Sprintf("%s", e.Policies), strings.Join(args[1:], " "))
	case "asked": // asked ENDPOINT [OP]...: what the last apply asked for there, in order
		var ops []string
		for _, c := range w.sim.Calls() {
			if c.Target == args[0] {
				ops = append(ops, c.Op)
			}
		}
		return same("calls", strings.Join(args[1:], " "), strings.Join(ops, " "))
	case "rivals": // rivals [NS/NAME]...: the remote pods whose claims are to be judged
		var pods []string
		for _, r := range w.report.Rivals {
			pods = append(pods, r[0]+"/"+r[1])
		}
		return same("rivals", strings.Join(args, " "), strings.Join(pods, " "))
	case "selecting": // selecting NS/NAME [NS/POLICY]...: the policies of a pod
		ns, pod, _ := strings.Cut(args[0], "/")
		return same("policies", fmt.Sprint(args[1:]), fmt.Sprint(w.dp.Selecting(desired.PodKey{Namespace: ns, Name: pod})))
	case "owner": // owner ADDR [NS/NAME]: the pod that has the address
		var owners []string
		for _, p := range w.dp.Dump().Pods {
			if p.Owner && p.Addr == args[0] {
				owners = append(owners, p.Pod)
			}
		}
		return same("owners", strings.Join(args[1:], " "), strings.Join(owners, " "))
	case "written": // written [ENDPOINT]...: whose rules the last apply wrote, in order
		return same("endpoints", strings.Join(args, " "), strings.Join(writtenEndpoints(w.sim), " "))
	case "left": // left N: how many updates of endpoints the last apply left to do
		return same("updates", args[0], strconv.Itoa(w.report.Pending))
	case "rules": // rules ENDPOINT N: how many rules of ours it has
		return same("rules", args[1], strconv.Itoa(len(w.rulesOf(args[0]))))
	case "no-sets": // no-sets: neither HNS nor the cache has one
		return same("sets", "0 0", fmt.Sprint(len(w.sim.Sets()), len(w.dp.Dump().Sets)))
	case "members": // members ADDR [SET]...: the sets in HNS with this address
		return same("sets", strings.Join(args[1:], " "), strings.Join(w.setsWith(args[0]), " "))
	case "no-holder": // no-holder TEXT: no set has a holder with this in its name
		text := setsText(w.dp.Dump())
		if strings.Contains(text, strings.Join(args, " ")) {
			return fmt.Errorf("%s", text)
		}
	case "remember": // remember: what HNS has
		w.remembered = w.sim.Dump()
	case "remembered": // remembered: HNS has the same now
		return same("HNS", w.remembered, w.sim.Dump())
	case "never": // never SRC -> DST PROTO/PORT ENDPOINT in|out: it is blocked now, and after each write until the script or node ends
		return w.never(args)
	case "starts": // starts NS/NAME SANDBOX DURATION TRACE: the pod may start by then, and as soon as it may the verdict is this
		return w.starts(args[0], args[1], must(time.ParseDuration(args[2])), args[3:])
	case "views": // views: the dump has the rules and references that HNS has
		return w.views()
	case "conflicts": // conflicts BEFORE AFTER: how many there were, before and after a write
		return same("conflicts", strings.Join(args, " "), fmt.Sprint(w.dp.Stats().Conflicts.Before, w.dp.Stats().Conflicts.After))
	case "spellings": // spellings FILE: what was learned of how HNS shows rules
		var b strings.Builder
		for _, s := range w.dp.Spellings() {
			fmt.Fprintf(&b, "%s %s %s\n", s.Kind, s.Object, acl.RuleText(*s.ShownRule))
		}
		return w.compare(args[0], b.String())
	case "learned": // learned [KIND]...: what the last apply learned of that
		var kinds []string
		for _, s := range w.report.Spellings {
			kinds = append(kinds, s.Kind)
		}
		return same("spellings", strings.Join(args, " "), strings.Join(kinds, " "))
	case "others": // others ENDPOINT N: how many rules of other programs it has
		e, _ := w.sim.Endpoint(args[0])
		_, others := hns.Endpoint{Policies: e.Policies}.Split()
		return same("rules of others", args[1], strconv.Itoa(len(others)))
	case "called": // called N: the dump has the name in HNS of each set, and N of them are called otherwise there
		is, others := setsByName(w.sim), 0
		for _, s := range w.dp.Dump().Sets {
			if s.Called != "" {
				others++
			}
			require.Equal(w.t, s.InHNS, is[cmp.Or(s.Called, s.Name)].ID == s.ID, s.Name)
		}
		return same("sets of another name", args[0], strconv.Itoa(others))
	case "drift": // drift set|acl FOUND REPAIRED: how many objects so far
		stats := w.dp.Stats()
		return same("drift", strings.Join(args[1:], " "), fmt.Sprint(stats.DriftFound[args[0]], stats.DriftRepaired[args[0]]))
	default:
		if name, is := w.reader.Read(words); name != "" {
			script.Tell(w.tx, name, is)
			return nil
		}
		return script.Change(w.sim, words)
	}
	return nil
}

// same compares what is with what should be.
func same(what, want, got string) error {
	if want != got {
		return fmt.Errorf("%s: %s, want %s", what, got, want)
	}
	return nil
}

// contains looks for a text.
func contains(what, text, part string) error {
	if !strings.Contains(text, part) {
		return fmt.Errorf("%s without %q: %s", what, part, text)
	}
	return nil
}

// counted checks OP=N... of counts of calls; without one there must be none.
func counted(calls map[string]int, args []string) error {
	if len(args) == 0 {
		return same("calls", "map[]", fmt.Sprint(calls))
	}
	for _, arg := range args {
		op, n, _ := strings.Cut(arg, "=")
		if err := same("calls of "+op, n, strconv.Itoa(calls[op])); err != nil {
			return err
		}
	}
	return nil
}

// wrote returns the Ids of the rules in each write of the last apply to an endpoint.
func (w *world) wrote(id string) (all [][]string) {
	for _, c := range w.sim.Calls() {
		if c.Target == id && isWrite(c.Op) {
			var ids []string
			for _, a := range c.ACLs {
				ids = append(ids, a.ID)
			}
			all = append(all, ids)
		}
	}
	return all
}

// setsWith returns the names of the sets in HNS that have an address.
func (w *world) setsWith(addr string) (out []string) {
	for _, s := range w.sim.Sets() {
		if slices.Contains(strings.Split(strings.Join(s.Values, ","), ","), addr) {
			out = append(out, s.Name)
		}
	}
	slices.Sort(out)
	return out
}

// never watches a packet that no write may let through.
func (w *world) never(args []string) error {
	packet, err := packetOf(args)
	if err != nil {
		return err
	}
	now := w.sim.Watch(probe{Endpoint: args[4], Direction: directions[args[5]], Packet: packet})
	require.Equal(w.t, []hnsfault.Outcome{hnsfault.Denied}, now)
	sim := w.sim
	w.unwatch = func() {
		for _, x := range sim.Transitions() {
			require.NotEqual(w.t, hnsfault.Allowed, x.To, "%s", sim.Dump())
		}
	}
	return nil
}

// starts waits until a pod may start.
func (w *world) starts(pod, sandbox string, within time.Duration, trace []string) error {
	for end := w.now.Add(within); w.now.Before(end); {
		_ = w.apply()
		if w.notReady(pod, sandbox) == "" {
			return w.trace(trace)
		}
		w.do("wait 500ms")
	}
	return fmt.Errorf("never ready, as %q", w.notReady(pod, sandbox))
}

// views compares everything that is kept of endpoints, and what is derived from it, with HNS.
func (w *world) views() error {
	dump, total := w.dp.Dump(), 0
	var named, held []string // "set endpoint"
	for _, ep := range dump.Endpoints {
		view, _ := w.sim.Endpoint(ep.ID)
		ours, foreign := hns.Endpoint{Policies: view.Policies}.Split()
		if err := same(ep.ID, fmt.Sprint(textsOf(ours), len(foreign)), fmt.Sprint(textsOf(ep.Applied), ep.Foreign)); err != nil {
			return err
		}
		total += len(ours)
		for _, a := range ours {
			for _, id := range a.SetIDs() {
				named = append(named, id+" applied "+ep.ID)
			}
		}
	}
	for _, s := range dump.Sets {
		for _, h := range s.Holders {
			if strings.HasPrefix(h, "applied ") {
				held = append(held, s.ID+" "+h)
			}
		}
	}
	slices.Sort(named)
	slices.Sort(held)
	if err := same("held for the rules of endpoints", fmt.Sprint(slices.Compact(named)), fmt.Sprint(held)); err != nil {
		return err
	}
	return same("rules", strconv.Itoa(total), strconv.Itoa(w.dp.Stats().ACLs))
}

func textsOf(acls []hns.ACL) []string {
	out := make([]string, len(acls))
	for i, a := range acls {
		out[i] = fmt.Sprint(a)
	}
	slices.Sort(out)
	return out
}

// has returns the members of a set in HNS, by name, without the permanent one; nil when
// there is no such set.
func (w *world) has(set string) []string {
	names := map[string]string{}
	for _, p := range w.sim.Sets() {
		names[p.ID] = p.Name
	}
	p, there := setsByName(w.sim)[set]
	if !there {
		return nil
	}
	out := []string{}
	for _, v := range p.Values {
		if name, nested := names[v]; nested {
			v = name
		}
		if v != "empty-emptyhashset" {
			out = append(out, v)
		}
	}
	slices.Sort(out)
	return out
}

package dataplane_test

import (
	"flag"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
	"sigs.k8s.io/yaml"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/tool/hnssim"
)

var update = flag.Bool("update", false, "rewrite the expected files of the scripts")

// TestScripts runs testdata/*.txtar: transactions as text. The commands are the
// methods of script; a line that starts with ! must fail.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			require.NoError(t, err)
			s := newScript(t, archive)
			for i, line := range strings.Split(string(archive.Comment), "\n") {
				s.run(fmt.Sprintf("%s:%d", file, i+1), line)
			}
			require.Empty(t, s.sim.UnusedFaults(), "faults that never happened")
			require.False(t, s.armed, "a call that never came")
			if *update {
				require.NoError(t, os.WriteFile(file, txtar.Format(archive), 0o644))
			}
		})
	}
}

// script plays one file.
type script struct {
	t       testing.TB
	archive *txtar.Archive
	sim     *hnsfault.Sim
	dp      *dataplane.Dataplane
	tx      *dataplane.Transaction
	now     time.Time
	report  state.Report
	armed   bool // a command waits for a call
	born    int  // for creation times: later lines are later pods
}

func newScript(t testing.TB, archive *txtar.Archive, change ...func(*dataplane.Config)) *script {
	s := &script{t: t, archive: archive, now: time.Unix(1_700_000_000, 0)}
	s.sim = hnsfault.New(hnsfault.Options{Foreign: hnssim.DefaultForeign()})
	cfg := dataplane.Config{Client: s.sim, Node: "n1", Now: s.clock, MaxBatchedACLs: 30}
	for _, c := range change {
		c(&cfg)
	}
	s.dp = dataplane.New(cfg)
	s.tx = dataplane.NewTransaction()
	return s
}

// clock is the dataplane's.
func (s *script) clock() time.Time { return s.now }

func (s *script) run(at, line string) {
	line, _, _ = strings.Cut(line, "#")
	args := strings.Fields(line)
	if len(args) == 0 {
		return
	}
	mustFail := args[0] == "!"
	if mustFail {
		args = args[1:]
	}
	err := s.command(args)
	if mustFail {
		require.Error(s.t, err, at)
	} else {
		require.NoError(s.t, err, at)
	}
}

func (s *script) command(args []string) error {
	name, args := args[0], args[1:]
	switch name {
	case "namespace": // namespace NAME [k=v]...
		s.tx.SetNamespace(desired.Namespace{Name: args[0], Labels: labels(args[1:])})
	case "pod": // pod NS/NAME ADDR [k=v]... [uid=U] [port=name:PROTO:n] [started=DURATION from now] [sandbox=S] [netns=N] [round=R] [trust=N] [remote|host|finished|deleting]
		return s.pod(args)
	case "policy": // policy FILE
		var np networkingv1.NetworkPolicy
		if err := yaml.UnmarshalStrict(s.file(args[0]), &np); err != nil {
			return err
		}
		s.tx.SetPolicy(&np)
	case "cluster": // cluster FILE: a ClusterNetworkPolicy
		var cnp v1alpha2.ClusterNetworkPolicy
		if err := yaml.UnmarshalStrict(s.file(args[0]), &cnp); err != nil {
			return err
		}
		s.tx.SetClusterPolicy(&cnp)
	case "delete": // delete pod NS/NAME | namespace NAME | policy NS/NAME | cluster NAME
		ns, obj, _ := strings.Cut(args[1], "/")
		switch args[0] {
		case "pod":
			s.tx.DeleteFinishedPod(desired.PodKey{Namespace: ns, Name: obj})
		case "namespace":
			s.tx.DeleteNamespace(args[1])
		case "policy":
			s.tx.DeletePolicy(policy.Key{Namespace: ns, Name: obj})
		case "cluster":
			s.tx.DeleteClusterPolicy(args[1])
		}
	case "node": // node ADDR...
		var addrs []netip.Addr
		for _, a := range args {
			addrs = append(addrs, netip.MustParseAddr(a))
		}
		s.tx.SetNodeAddrs(addrs)
	case "endpoint": // endpoint ID ADDR[,ADDR]... [bare]
		e := hnssim.NewEndpoint{ID: args[0]}
		for addr := range strings.SplitSeq(args[1], ",") {
			e.Addrs = append(e.Addrs, netip.MustParseAddr(addr))
		}
		if len(args) > 2 {
			e.Policies = []hns.EndpointPolicy{}
		}
		return s.sim.CreateEndpoint(e)
	case "no-endpoint": // no-endpoint ID
		return s.sim.DeleteEndpoint(args[0])
	case "fault": // fault OP TARGET refuse|lose|half
		modes := map[string]hnsfault.Mode{"refuse": hnsfault.Refuse, "lose": hnsfault.LoseReply, "half": hnsfault.Half}
		s.sim.Inject(hnsfault.Fault{Op: args[0], Target: strings.Trim(args[1], "*"), Mode: modes[args[2]]})
	case "advance": // advance DURATION
		d, err := time.ParseDuration(args[0])
		s.now = s.now.Add(d)
		return err
	case "observe": // observe: the reconciler reads what HNS shows now
		_, err := s.dp.Observe(s.t.Context(), dataplane.Everything())
		return err
	case "apply": // apply: fails when HNS refused something
		return s.apply()
	case "calls": // calls [OP=n]...: writes of the last apply, all of them
		return s.calls(args)
	case "retry": // retry DURATION: when the next transaction is due
		if got := s.report.Next().String(); got != args[0] {
			return fmt.Errorf("retry after %s, want %s", got, args[0])
		}
	case "warnings": // warnings FILE
		var b strings.Builder
		for _, w := range s.report.Warnings {
			fmt.Fprintf(&b, "%s %s %s: %s\n", w.Kind, w.Object, w.Reason, w.Message)
		}
		return s.compare(args[0], b.String())
	case "hns": // hns FILE: what HNS has
		return s.compare(args[0], s.sim.Dump())
	case "sets": // sets FILE: what the cache has
		return s.compare(args[0], setsText(s.dp.Dump()))
	case "pending": // pending FILE
		var b strings.Builder
		for _, p := range s.dp.Dump().Pending {
			fmt.Fprintf(&b, "%s %s join=%v leave=%v attempts=%d\n", p.Pod, p.Endpoint, p.Join, p.Leave, p.Attempts)
		}
		return s.compare(args[0], b.String())
	case "trace": // trace SRC -> DST PROTO/PORT ENDPOINT in|out allow|block
		return s.trace(args)
	default:
		return s.nodeCommand(name, args)
	}
	return nil
}

func (s *script) pod(args []string) error {
	ns, name, _ := strings.Cut(args[0], "/")
	s.born++
	p := desired.Pod{
		Namespace: ns, Name: name, UID: types.UID(args[0]), Labels: map[string]string{}, Local: true,
		Created: s.now, Started: s.now.Add(time.Duration(s.born) * time.Millisecond),
	}
	if args[1] != "-" {
		p.Addr = netip.MustParseAddr(args[1])
	}
	for _, arg := range args[2:] {
		key, value, isPair := strings.Cut(arg, "=")
		switch {
		case arg == "remote":
			p.Local = false
		case arg == "host":
			p.HostNetwork = true
		case arg == "finished":
			p.Finished = true
		case arg == "deleting":
			p.Deleting = true
		case key == "trust":
			trust, err := strconv.ParseInt(value, 10, 8)
			if err != nil {
				return err
			}
			p.Trust = int8(trust)
		case key == "uid":
			p.UID = types.UID(value)
		case key == "sandbox":
			p.Sandbox.ID, p.Sandbox.Told = value, s.now
		case key == "netns":
			p.Sandbox.Netns = value
		case key == "round":
			round, err := strconv.Atoi(value)
			if err != nil {
				return err
			}
			p.Sandbox.Round = round
		case key == "started":
			after, err := time.ParseDuration(value)
			if err != nil {
				return err
			}
			p.Started = s.now.Add(after)
		case key == "port":
			parts := strings.Split(value, ":")
			n, err := strconv.ParseUint(parts[2], 10, 16)
			if err != nil {
				return err
			}
			p.Ports = append(p.Ports, desired.PodPort{Name: parts[0], Protocol: policy.Protocol(parts[1]), Number: uint16(n)})
		case isPair:
			p.Labels[key] = value
		default:
			return fmt.Errorf("unknown pod attribute %q", arg)
		}
	}
	s.tx.SetPod(p)
	return nil
}

func (s *script) apply() error {
	s.sim.ResetCalls()
	report, err := s.dp.ApplyDataplane(s.t.Context(), s.tx)
	s.tx, s.report = dataplane.NewTransaction(), report
	require.NoError(s.t, err)
	require.Equal(s.t, writesOf(report.Calls), writesOf(s.sim.Counts()), "the report counts the writes that HNS saw")
	if len(report.Errors) > 0 {
		return fmt.Errorf("%s", strings.Join(report.Errors, "; "))
	}
	return nil
}

func writesOf(calls map[string]int) map[string]int {
	out := maps.Clone(calls)
	maps.DeleteFunc(out, func(op string, _ int) bool { return !isWrite(op) })
	return out
}

func (s *script) calls(args []string) error {
	var got []string
	for _, op := range slices.Sorted(maps.Keys(s.report.Calls)) {
		if isWrite(op) {
			got = append(got, fmt.Sprintf("%s=%d", op, s.report.Calls[op]))
		}
	}
	slices.Sort(args)
	if diff := cmp.Diff(strings.Join(args, " "), strings.Join(got, " ")); diff != "" {
		return fmt.Errorf("writes (-want +got):\n%s", diff)
	}
	return nil
}

func (s *script) trace(args []string) error {
	protocols := map[string]uint8{"TCP": 6, "UDP": 17, "SCTP": 132}
	proto, port, _ := strings.Cut(args[3], "/")
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return err
	}
	dir := map[string]hns.Direction{"in": hns.In, "out": hns.Out}[args[5]]
	verdict, err := s.sim.Trace(args[4], dir, hnssim.Packet{
		Src: netip.MustParseAddr(args[0]), Dst: netip.MustParseAddr(args[2]),
		Protocol: protocols[proto], DstPort: uint16(n),
	})
	if err != nil {
		return err
	}
	if want := args[6] == "allow"; verdict.Allowed != want {
		return fmt.Errorf("allowed=%v, matched %v", verdict.Allowed, verdict.Matched)
	}
	return nil
}

// file returns a file of the archive.
func (s *script) file(name string) []byte {
	for _, f := range s.archive.Files {
		if f.Name == name {
			return f.Data
		}
	}
	s.t.Fatalf("the script has no file %s", name)
	return nil
}

// compare checks text against a file of the archive, or rewrites the file.
func (s *script) compare(name, got string) error {
	for i, f := range s.archive.Files {
		if f.Name == name {
			if *update {
				s.archive.Files[i].Data = []byte(got)
				return nil
			}
			if diff := cmp.Diff(string(f.Data), got); diff != "" {
				return fmt.Errorf("%s (-want +got):\n%s", name, diff)
			}
			return nil
		}
	}
	if *update {
		s.archive.Files = append(s.archive.Files, txtar.File{Name: name, Data: []byte(got)})
		return nil
	}
	return fmt.Errorf("the script has no file %s", name)
}

func labels(args []string) map[string]string {
	out := map[string]string{}
	for _, arg := range args {
		key, value, _ := strings.Cut(arg, "=")
		out[key] = value
	}
	return out
}

// setsText renders the sets of a dump with their holders.
func setsText(d state.Dump) string {
	var b strings.Builder
	for _, s := range d.Sets {
		fmt.Fprintf(&b, "%s %v hns=%v dirty=%v\n", s.Name, s.Members, s.InHNS, s.Dirty)
		for _, h := range s.Holders {
			fmt.Fprintf(&b, "  %s\n", h)
		}
		for _, p := range s.Pins {
			fmt.Fprintf(&b, "  pin %s\n", p)
		}
	}
	return b.String()
}

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

	"github.com/winnpm/winnpm/pkg/controllers"
	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/test/looks"
	"github.com/winnpm/winnpm/test/script"
	"github.com/winnpm/winnpm/tool/hnssim"
)

var update = flag.Bool("update", false, "rewrite the expected files of the scripts")

// TestScripts runs testdata/*.txtar. test/torture/README.md describes the lines about the cluster
// and the node; the cases of command, nodeCommand and check are the others. A line that starts with
// ! must fail.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			require.NoError(t, err)
			w := newWorld(t)
			w.archive = archive
			for i, line := range strings.Split(string(archive.Comment), "\n") {
				w.run(fmt.Sprintf("%s:%d", file, i+1), line)
			}
			w.end()
			if *update {
				require.NoError(t, os.WriteFile(file, txtar.Format(archive), 0o644))
			}
		})
	}
}

// world is a node with what happened to it; its commands are lines of text.
type world struct {
	t       testing.TB
	archive *txtar.Archive
	sim     *hnsfault.Sim
	dp      *dataplane.Dataplane
	tx      *dataplane.Transaction
	now     time.Time
	report  state.Report
	armed   bool // a command waits for a call
	reader  script.Reader

	total      map[string]int // calls of all transactions
	remembered string         // a dump of HNS
	unwatch    func()         // ends the watches of the commands never
}

// newWorld returns a node with the dataplane on the simulator.
func newWorld(t testing.TB, change ...func(*dataplane.Config)) *world {
	t.Helper()
	w := &world{t: t, archive: &txtar.Archive{}}
	w.reset(change...)
	return w
}

// reset begins with another node.
func (w *world) reset(change ...func(*dataplane.Config)) {
	w.now = time.Unix(1_700_000_000, 0)
	w.unwatch, w.total = func() {}, map[string]int{}
	w.reader = script.Reader{Now: w.clock}
	w.sim = hnsfault.New(hnsfault.Options{Foreign: hnssim.DefaultForeign()})
	w.start(change...)
}

// start starts a process that knows nothing.
func (w *world) start(change ...func(*dataplane.Config)) {
	cfg := dataplane.Config{Client: w.sim, Node: "n1", Now: w.clock, MaxBatchedACLs: 30}
	for _, c := range change {
		c(&cfg)
	}
	w.dp, w.tx = dataplane.New(cfg), dataplane.NewTransaction()
}

// end checks that every fault and every before command was used.
func (w *world) end() {
	require.Empty(w.t, w.sim.UnusedFaults(), "faults that never happened")
	require.False(w.t, w.armed, "a call that never came")
	w.unwatch()
}

// clock is the dataplane's.
func (w *world) clock() time.Time { return w.now }

// run runs a line, which is at a place of a file. A malformed one panics, also where it must fail.
func (w *world) run(at, line string) {
	defer func() {
		if p := recover(); p != nil {
			panic(fmt.Sprintf("%s: %v", at, p))
		}
	}()
	words := script.Words(line)
	if len(words) == 0 {
		return
	}
	mustFail := words[0] == "!"
	if mustFail {
		words = words[1:]
	}
	err := w.command(words)
	if mustFail {
		require.Error(w.t, err, at)
	} else {
		require.NoError(w.t, err, at)
	}
}

// command runs a line about the cluster or the node, or one of these that only scripts have.
func (w *world) command(words []string) error {
	name, args := words[0], words[1:]
	switch name {
	case "play": // play FILE [ARG [| ARG]...]: run the lines of a file of the script, with the arguments for $1, $2 …
		return w.play(args[0], strings.Split(strings.Join(args[1:], " "), "|"))
	case "repeat": // repeat N COMMAND...: with 0, 1 … N-1 for $i
		for i := range must(strconv.Atoi(args[0])) {
			w.do(strings.ReplaceAll(strings.Join(args[1:], " "), "$i", strconv.Itoa(i)))
		}
	case "wait": // wait DURATION|due: until then, or until the next transaction is due
		if args[0] == "due" {
			w.now = w.now.Add(w.report.Next())
			return nil
		}
		w.now = w.now.Add(must(time.ParseDuration(args[0])))
	case "observe": // observe: the reconciler reads what HNS shows now
		_, err := w.dp.Observe(w.t.Context(), looks.All(w.dp))
		return err
	case "apply": // apply: fails when HNS refused something
		return w.apply()
	case "try": // try: apply, whatever HNS rejects
		_ = w.apply()
	case "during": // during DURATION[/N] [COMMAND...]: apply whenever that is due, N times at most, and run the command after each
		length, most, bounded := strings.Cut(args[0], "/")
		rounds := w.during(must(time.ParseDuration(length)), func() { w.do(strings.Join(args[1:], " ")) })
		if bounded && rounds > must(strconv.Atoi(most)) {
			return fmt.Errorf("it applied %d times", rounds)
		}
	case "calls": // calls [OP=n]...: writes of the last apply, all of them
		return w.calls(args)
	case "new-node": // new-node [calico]: another script begins
		w.end()
		w.reset()
		if len(args) > 0 {
			w.sim = hnsfault.New(hnsfault.Options{Network: "Calico"})
			w.start(onCalico)
		}
	case "vanish": // vanish NS/NAME: a pod is deleted that has not finished
		ns, name, _ := strings.Cut(args[0], "/")
		w.tx.DeletePod(desired.PodKey{Namespace: ns, Name: name})
	case "ready": // ready NS/NAME SANDBOX [WHY NOT]: whether a pod may start with a sandbox
		if why := w.notReady(args[0], args[1]); why != strings.Join(args[2:], " ") {
			return fmt.Errorf("not ready, as %q", why)
		}
	case "over-budget": // over-budget namespace NAME|pod NS/NAME ADDR [remote]: it has too many labels; over-budget policy …: it is too long
		switch _, is := w.reader.Read(args); {
		case is.Namespace != nil:
			w.tx.SetNamespace(desired.Namespace{Name: is.Namespace.Name, OverBudget: "300 labels"})
		case is.Policy != nil:
			is.Policy.Spec = policy.Close(&is.Policy.Spec, "it is too long")
			w.tx.SetPolicy(is.Policy)
		default:
			pod := controllers.PodFrom(is.Pod, "n1")
			pod.Labels, pod.OverBudget = nil, "300 labels"
			w.tx.SetPod(pod)
		}
	case "converged": // converged: the last apply left nothing to do
		if !w.report.Converged() {
			return fmt.Errorf("not converged: %+v", w.report)
		}
	case "set": // set NAME [MEMBER...]: what a set has in HNS, of a nested one the names; - for no set
		got := strings.Join(w.has(args[0]), " ")
		if w.has(args[0]) == nil {
			got = "-"
		}
		if want := strings.Join(args[1:], " "); got != want {
			return fmt.Errorf("set %s has %q, want %q", args[0], got, want)
		}
	case "retry": // retry DURATION: when the next transaction is due
		if got := w.report.Next().String(); got != args[0] {
			return fmt.Errorf("retry after %s, want %s", got, args[0])
		}
	case "warnings": // warnings FILE
		return w.compare(args[0], w.warnings())
	case "hns": // hns FILE: what HNS has
		return w.compare(args[0], w.sim.Dump())
	case "sets": // sets FILE: what the cache has
		return w.compare(args[0], setsText(w.dp.Dump()))
	case "pending": // pending FILE
		var b strings.Builder
		for _, p := range w.dp.Dump().Pending {
			fmt.Fprintf(&b, "%s %s join=%v leave=%v attempts=%d\n", p.Pod, p.Endpoint, p.Join, p.Leave, p.Attempts)
		}
		return w.compare(args[0], b.String())
	case "trace": // trace SRC -> DST PROTO/PORT ENDPOINT in|out allow|block
		return w.trace(args)
	default:
		return w.nodeCommand(name, args, words)
	}
	return nil
}

// warnings returns the warnings of the last report, one in a line.
func (w *world) warnings() string {
	var b strings.Builder
	for _, x := range w.report.Warnings {
		fmt.Fprintf(&b, "%s %s %s: %s\n", x.Kind, x.Object, x.Reason, x.Message)
	}
	return b.String()
}

// play runs the lines of a file of the script.
func (w *world) play(name string, args []string) error {
	at := slices.IndexFunc(w.archive.Files, func(f txtar.File) bool { return f.Name == name })
	if at < 0 {
		return fmt.Errorf("the script has no file %s", name)
	}
	var pairs []string
	for i, arg := range args {
		pairs = append(pairs, fmt.Sprint("$", i+1), strings.TrimSpace(arg))
	}
	for line := range strings.Lines(strings.NewReplacer(pairs...).Replace(string(w.archive.Files[at].Data))) {
		w.run(name+": "+line, line)
	}
	return nil
}

// during lets time pass: it applies whenever that is due, whatever HNS rejects.
func (w *world) during(d time.Duration, then func()) (rounds int) {
	end := w.now.Add(d)
	for w.now.Before(end) {
		_ = w.apply()
		then()
		rounds++
		if w.report.Next() == 0 {
			break
		}
		w.now = w.now.Add(w.report.Next())
	}
	w.now = slices.MaxFunc([]time.Time{w.now, end}, time.Time.Compare)
	return rounds
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func (w *world) apply() error {
	w.sim.ResetCalls()
	w.transact()
	require.Equal(w.t, writesOf(w.report.Calls), writesOf(w.sim.Counts()), "the report counts the writes that HNS saw")
	if len(w.report.Errors) > 0 {
		return fmt.Errorf("%s", strings.Join(w.report.Errors, "; "))
	}
	return nil
}

// transact is apply without a look at the calls.
func (w *world) transact() {
	report, err := w.dp.ApplyDataplane(w.t.Context(), w.tx)
	w.tx, w.report = dataplane.NewTransaction(), report
	for op, n := range report.Calls {
		w.total[op] += n
	}
	require.NoError(w.t, err)
}

func writesOf(calls map[string]int) map[string]int {
	out := maps.Clone(calls)
	maps.DeleteFunc(out, func(op string, _ int) bool { return !isWrite(op) })
	return out
}

func (w *world) calls(args []string) error {
	var got []string
	for _, op := range slices.Sorted(maps.Keys(w.report.Calls)) {
		if isWrite(op) {
			got = append(got, fmt.Sprintf("%s=%d", op, w.report.Calls[op]))
		}
	}
	slices.Sort(args)
	if diff := cmp.Diff(strings.Join(args, " "), strings.Join(got, " ")); diff != "" {
		return fmt.Errorf("writes (-want +got):\n%s", diff)
	}
	return nil
}

var directions = map[string]hns.DirectionType{"in": hns.In, "out": hns.Out}

// packetOf reads SRC -> DST PROTO/PORT.
func packetOf(args []string) (hnssim.Packet, error) {
	protocols := map[string]uint8{"TCP": 6, "UDP": 17, "SCTP": 132}
	proto, port, _ := strings.Cut(args[3], "/")
	n, err := strconv.ParseUint(port, 10, 16)
	return hnssim.Packet{Src: netip.MustParseAddr(args[0]), Dst: netip.MustParseAddr(args[2]), Protocol: protocols[proto], DstPort: uint16(n)}, err
}

func (w *world) trace(args []string) error {
	packet, err := packetOf(args)
	if err != nil {
		return err
	}
	verdict, err := w.sim.Trace(args[4], directions[args[5]], packet)
	if err != nil {
		return err
	}
	if want, known := map[string]bool{"allow": true, "block": false}[args[6]]; !known || verdict.Allowed != want {
		return fmt.Errorf("allowed=%v, matched %v", verdict.Allowed, verdict.Matched)
	}
	return nil
}

// compare checks text against a file of the archive, or rewrites the file.
func (w *world) compare(name, got string) error {
	for i, f := range w.archive.Files {
		if f.Name == name {
			if *update {
				w.archive.Files[i].Data = []byte(got)
				return nil
			}
			if diff := cmp.Diff(string(f.Data), got); diff != "" {
				return fmt.Errorf("%s (-want +got):\n%s", name, diff)
			}
			return nil
		}
	}
	if *update {
		w.archive.Files = append(w.archive.Files, txtar.File{Name: name, Data: []byte(got)})
		return nil
	}
	return fmt.Errorf("the script has no file %s", name)
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

package dataplane_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/effort"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// TestRandomWalk plays random events, failures and foreign hands. Whatever
// happened on the way, in the end the node is as if a new dataplane had learned
// of everything at once, and when everything goes nothing is left.
func TestRandomWalk(t *testing.T) {
	rounds(t, func(t *testing.T, rt *rapid.T, first *string) {
		w := newWalker(rt, t.Context(), dataplane.Config{
			MaxBatchedACLs: rapid.SampledFrom([]int{30, 2}).Draw(rt, "batch"),
			MaxRepairs:     rapid.SampledFrom([]int{0, 1}).Draw(rt, "repairs"),
			Unchecked:      rapid.Bool().Draw(rt, "unchecked"),
			GracePeriod:    rapid.SampledFrom([]time.Duration{0, 10 * time.Second}).Draw(rt, "grace"),
		}, walkSim(), newCluster())
		w.first = first
		w.hasty = rapid.Bool().Draw(rt, "hasty")
		w.faulty = rapid.Bool().Draw(rt, "faults")
		w.rejecting = rapid.Bool().Draw(rt, "rejections")
		tampering := rapid.Bool().Draw(rt, "foreign hands")
		actions := w.actions()
		actions["dump"] = w.snapshotBefore(actions)
		for name, on := range map[string]bool{"fault": w.faulty, "come and go": w.faulty, "reject": w.rejecting, "tamper": tampering} {
			if !on {
				delete(actions, name)
			}
		}
		rt.Repeat(actions)
		w.calm()
		w.compare()
		w.clear()
	})
}

// TestMain has random tests draw little for a change, and a fifth under the race
// detector, which sees little in walks of one goroutine; make deep runs them in full.
func TestMain(m *testing.M) {
	flag.Parse()
	effort.Checks(effort.Of(5, 20, 100))
	os.Exit(m.Run())
}

// rounds runs some walks side by side. It logs the first failure, as what depends
// on the order of a map may not come back when rapid shrinks it.
func rounds(t *testing.T, walk func(t *testing.T, rt *rapid.T, first *string)) {
	for i := range 2 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			var first string
			t.Cleanup(func() {
				if t.Failed() {
					t.Log("the first failure was:", first)
				}
			})
			rapid.Check(t, func(rt *rapid.T) { walk(t, rt, &first) })
		})
	}
}

// actions are what may happen at any time.
func (w *walker) actions() map[string]func(*rapid.T) {
	var late []*dataplane.Observation
	return map[string]func(*rapid.T){
		"events": func(t *rapid.T) {
			tx := dataplane.NewTransaction()
			for range rapid.IntRange(1, 4).Draw(t, "objects") {
				w.event(t, tx)
			}
			w.apply(tx)
		},
		"event": func(t *rapid.T) {
			tx := dataplane.NewTransaction()
			w.event(t, tx)
			w.apply(tx)
		},
		"process": func(t *rapid.T) { // another one, which has missed something
			w.note("another process")
			for range rapid.IntRange(0, 3).Draw(t, "objects") {
				w.event(t, dataplane.NewTransaction())
			}
			w.dp, late = dataplane.New(w.cfg), nil
			w.apply(w.cluster.all())
		},
		"nothing": func(*rapid.T) { w.apply(dataplane.NewTransaction()) },
		"time": func(t *rapid.T) {
			w.now = w.now.Add(rapid.SampledFrom([]time.Duration{time.Second, 10 * time.Second, 6 * time.Minute}).Draw(t, "time"))
		},
		"endpoint": func(t *rapid.T) { w.drawEndpoint(t) },
		"look":     func(*rapid.T) { late = append(late, w.observe()) },
		"fold": func(t *rapid.T) {
			tx := dataplane.NewTransaction()
			if n := len(late); n > 0 {
				at := rapid.IntRange(0, n-1).Draw(t, "observation")
				tx.SetObservation(late[at])
				w.note("fold %d of %d", at, n)
				late = slices.Delete(late, at, at+1)
			}
			for range rapid.IntRange(0, 2).Draw(t, "objects") {
				w.event(t, tx)
			}
			w.apply(tx)
		},
		"fault": func(t *rapid.T) { w.drawFault(t) },
		"come and go": func(t *rapid.T) { // the rules may be there, and nobody wants them any more
			np := walkPolicy(rapid.SampledFrom(walkSpaces).Draw(t, "namespace"), rapid.IntRange(0, len(walkSpecs)-1).Draw(t, "template"), 0)
			w.sim.Inject(hnsfault.Fault{Op: rapid.SampledFrom([]string{"ACL/Add", "ACL/Update"}).Draw(t, "call"), Mode: hnsfault.LoseReply})
			if rapid.Bool().Draw(t, "unread") {
				w.sim.Inject(hnsfault.Fault{Op: "Endpoint/Get"})
			}
			for _, e := range []event{setPolicy(np, "policy "+np.Name), deletePolicy(policyKey(np))} {
				tx := dataplane.NewTransaction()
				e.apply(w.cluster, tx)
				w.note("%s", e.text)
				w.apply(tx)
			}
		},
		"foreign": func(t *rapid.T) { w.addForeign(t) },
		"reject":  func(t *rapid.T) { w.drawReject(t) },
		"tamper":  func(t *rapid.T) { w.drawTamper(t) },
	}
}

func (w *walker) event(t *rapid.T, tx *dataplane.Transaction) {
	e := w.cluster.drawEvent(t)
	e.apply(w.cluster, tx)
	w.note("%s", e.text)
}

// drawEndpoint is the CNI's hand.
func (w *walker) drawEndpoint(t *rapid.T) {
	eps := w.sim.Endpoints()
	if len(eps) == 0 || len(eps) < 5 && rapid.Bool().Draw(t, "new") {
		w.ids++
		addr := walkAddrs[rapid.IntRange(0, walkEndpoints-1).Draw(t, "address")]
		w.createEndpoint(fmt.Sprint("ep-", w.ids), addr, rapid.Bool().Draw(t, "bare"))
		return
	}
	ep := rapid.SampledFrom(eps).Draw(t, "endpoint")
	what := rapid.SampledFrom([]string{"delete", "detach", "attach"}).Draw(t, "change")
	w.note("%s %s", what, ep.ID)
	var err error
	switch what {
	case "delete":
		err = w.sim.DeleteEndpoint(ep.ID)
	case "detach":
		w.detached = true
		err = w.sim.SetState(ep.ID, hnssim.Detached)
	case "attach":
		err = w.sim.SetState(ep.ID, hnssim.AttachedSharing)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (w *walker) drawFault(t *rapid.T) {
	f := hnsfault.Fault{
		Op: rapid.SampledFrom([]string{
			"ACL/Add", "ACL/Update", "SetPolicy/Add", "SetPolicy/Update", "SetPolicy/Remove",
			"Endpoint/Get", "Endpoint/Enumerate", "Network/Get", "",
		}).Draw(t, "call"),
		Mode:  rapid.SampledFrom([]hnsfault.Mode{hnsfault.Refuse, hnsfault.LoseReply, hnsfault.Half}).Draw(t, "mode"),
		Nth:   rapid.IntRange(1, 2).Draw(t, "nth"),
		Times: rapid.IntRange(1, 2).Draw(t, "times"),
	}
	w.halved = w.halved || f.Mode == hnsfault.Half
	w.note("fault %+v", f)
	w.sim.Inject(f)
}

func (w *walker) drawReject(t *rapid.T) {
	w.badPort = rapid.SampledFrom([]string{"", "80", "81", "80-81"}).Draw(t, "port")
	w.badAddr = rapid.SampledFrom(append([]string{""}, walkAddrs...)).Draw(t, "address")
	w.note("reject port %q address %q", w.badPort, w.badAddr)
}

// drawTamper is the hand of somebody else on the node.
func (w *walker) drawTamper(t *rapid.T) {
	what := rapid.SampledFrom([]string{"drop set", "change set", "drop rule", "restart", "lost"}).Draw(t, "tamper")
	sets, eps := w.sim.Sets(), w.sim.Endpoints()
	switch {
	case strings.HasSuffix(what, "set") && len(sets) > 0:
		s := rapid.SampledFrom(sets).Draw(t, "set")
		w.note("%s %s", what, s.Name)
		w.tampered = true
		if what == "change set" && s.Type == hns.IPSet && s.Name != "empty-emptyhashset" {
			s.Values = []string{rapid.SampledFrom(walkAddrs).Draw(t, "value")}
			_ = w.sim.PutSet(s) // refused while such content is rejected
		} else {
			_ = w.sim.DropSet(s.ID) // refused while in use
		}
	case what == "drop rule" && len(eps) > 0:
		ep := rapid.SampledFrom(eps).Draw(t, "endpoint")
		ours := slices.DeleteFunc(slices.Clone(ep.Policies), isForeign)
		if len(ours) == 0 {
			t.Skip("none")
		}
		lost := rapid.SampledFrom(ours).Draw(t, "rule")
		w.note("drop rule on %s: %s", ep.ID, lost.Settings)
		w.tampered = true
		_ = w.sim.SetPolicies(ep.ID, slices.DeleteFunc(ep.Policies, func(p hns.EndpointPolicy) bool {
			return string(p.Settings) == string(lost.Settings)
		})) // refused while such content is rejected
	case what == "restart" || what == "lost":
		w.note("%s", what)
		w.tampered = w.tampered || what == "lost"
		w.sim.Restart(what == "lost")
	}
}

// addForeign is another agent that puts a rule on an endpoint.
func (w *walker) addForeign(t *rapid.T) {
	eps := w.sim.Endpoints()
	if len(eps) == 0 {
		t.Skip("none")
	}
	ep := rapid.SampledFrom(eps).Draw(t, "endpoint")
	p := hns.NewACLPolicy(hns.ACL{
		ID: fmt.Sprint("other-", len(ep.Policies)), Action: hns.Block, Direction: hns.In,
		RemoteAddresses: "10.9.9.9", RuleType: hns.Switch, Priority: 150,
	})
	if w.sim.SetPolicies(ep.ID, append(ep.Policies, p)) == nil { // refused while a rule there is rejected
		w.base[ep.ID] = append(slices.Clone(w.base[ep.ID]), p)
		w.note("foreign rule on %s", ep.ID)
	}
}

func isForeign(p hns.EndpointPolicy) bool {
	a, err := p.ACL()
	return err != nil || !a.Ours()
}

// calm lifts everything that disturbs, and lets time pass until all is well.
func (w *walker) calm() {
	w.note("calm")
	w.quell()
	w.createEndpoint("ep-0", "10.0.0.9", false) // a node without any endpoint is not settled
	w.badPort, w.badAddr = "", ""
	for _, e := range w.sim.Endpoints() {
		_ = w.sim.SetState(e.ID, hnssim.AttachedSharing)
		ours := slices.DeleteFunc(slices.Clone(e.Policies), isForeign)
		if err := w.sim.SetPolicies(e.ID, slices.Concat(w.base[e.ID], ours)); err != nil {
			w.fail("%v", err)
		}
	}
	w.reconcile(dataplane.NewTransaction())
	w.settle()
	w.reconcile(dataplane.NewTransaction())
	w.settle()
	w.faulty, w.tampered, w.detached = false, false, false
	if w.rejecting { // what was refused is remembered until it changes
		w.dropLeft()
		tx := dataplane.NewTransaction()
		w.cluster.forgetPolicies(tx)
		w.applyWhole(tx)
		w.apply(w.cluster.all())
		w.settle()
		w.rejecting = false
	}
	w.note("calm reached")
}

// dropLeft deletes the endpoints without a pod, which keep what they have.
func (w *walker) dropLeft() {
	w.now = w.now.Add(time.Minute) // one that could not be read is read again, and known
	w.settle()
	for _, ep := range w.dp.Dump().Endpoints {
		if ep.Pod == "" && ep.ID != "ep-0" {
			if err := w.sim.DeleteEndpoint(ep.ID); err != nil {
				w.fail("%v", err)
			}
		}
	}
	w.reconcile(dataplane.NewTransaction())
}

// quell uses up the faults that are still armed.
func (w *walker) quell() {
	for range 100 {
		if len(w.sim.UnusedFaults()) == 0 {
			return
		}
		_, _ = w.sim.Network(w.ctx)
		_, _ = w.sim.EndpointIDs(w.ctx)
		_, _ = w.sim.GetEndpoint(w.ctx, "none")
		_ = w.sim.AddACLs(w.ctx, "none", nil)
		_ = w.sim.ReplacePolicies(w.ctx, "none", nil)
		for _, verb := range []hns.Verb{hns.Add, hns.Update, hns.Remove} {
			_ = w.sim.ModifySets(w.ctx, verb, nil)
		}
	}
	w.fail("faults that never happen: %+v", w.sim.UnusedFaults())
}

// compare: the node is as a new dataplane would have made it.
func (w *walker) compare() {
	w.dropLeft()
	w.hasty = false // every endpoint has its Update before the next transaction
	// Rules of unused named ports stay until the next Update: here it is.
	for _, gone := range []bool{false, true} {
		tx := dataplane.NewTransaction()
		for _, ns := range walkSpaces {
			np := flush(ns)
			tx.SetPolicy(np)
			if gone {
				tx.DeletePolicy(policyKey(np))
			}
		}
		w.apply(tx)
	}
	w.now = w.now.Add(time.Hour)
	w.settle()
	w.apply(dataplane.NewTransaction())
	if writes := writesOf(w.report.Calls); len(writes) > 0 || w.report.RetryAfter > 0 && len(w.waiting()) == 0 {
		w.fail("nothing changed: writes %v, next after %s", writes, w.report.RetryAfter)
	}

	w.note("twin")
	twin := w.twin()
	if diff := cmp.Diff(twin.sim.Dump(), w.sim.Dump()); diff != "" {
		w.fail("the node differs from that of a new dataplane (-new +this):\n%s", diff)
	}
	if diff := cmp.Diff(twin.state(), w.state(), cmpopts.EquateEmpty()); diff != "" {
		w.fail("the dump differs from that of a new dataplane (-new +this):\n%s", diff)
	}

	w.note("restart")
	again := w.restarted(w.sim)
	if writes := writesOf(again.report.Calls); len(writes) > 0 {
		again.fail("a restart with nothing changed writes %v\n%s", writes, again.report.Plan)
	}
}

// clear deletes all objects; no set, rule or reference is left.
func (w *walker) clear() {
	w.note("clear")
	tx := dataplane.NewTransaction()
	w.cluster.forgetPolicies(tx)
	w.applyWhole(tx)
	w.now = w.now.Add(time.Hour)
	w.settle()
	if sets := w.dp.Dump().Sets; len(sets)+len(w.sim.Sets()) > 0 {
		w.fail("sets are left: %+v", sets)
	}
}

// flush is a policy that adds a rule to every pod of a namespace.
func flush(ns string) *networkingv1.NetworkPolicy {
	port := intstr.FromInt32(9999)
	return &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "flush"},
		Spec: networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{
			{Ports: []networkingv1.NetworkPolicyPort{{Port: &port}}},
		}},
	}
}

package dataplane

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/winnpm/winnpm/pkg/backoff"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// ErrDump is that a dump does not say what a Dataplane could go on from.
var ErrDump = errors.New("not the dump of a dataplane")

// View is what HNS has of our network: our sets, and the endpoints.
type View struct {
	Sets      []hns.SetPolicy
	Endpoints []hns.Endpoint
}

// Restore returns a Dataplane that goes on from a dump, with a view of HNS in
// place of that of the dump: Dump.View, or what is known since. It makes no call.
// Whatever else a Dataplane remembers begins anew: what it counted, who changed
// what of ours before, what a set was that only rules in HNS still name, and which
// numbers of named ports were in use before. It fails with ErrDump.
func Restore(cfg Config, dump state.Dump, view View) (*Dataplane, error) {
	tx, err := objectsOf(dump)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDump, err)
	}
	d := New(cfg)
	d.with(func(c *core) { c.restore(tx, dump, view) })
	return d, nil
}

// restore makes a core that knows nothing go on from a dump, whose objects tx has.
func (d *core) restore(tx *Transaction, dump state.Dump, view View) {
	d.spellings.Restore(dump.Spellings, dump.OthersCut)
	d.now = dump.Time
	d.cache.Advance(dump.Time)
	if n := len(dump.Reports); n > 0 {
		d.generation = dump.Reports[n-1].Generation
	}
	d.stage(tx)
	d.listing, d.sets, d.fresh = listingOf(dump.Due), backoff.Retry{Tries: dump.Due.Sets.Attempts, At: dump.Due.Sets.At}, dump.Due.Unread
	_ = d.takeSets(observedSets(view.Sets), nil) // nothing was known that could differ
	for _, e := range view.Endpoints {
		d.render(d.read(e))
	}
	for _, ed := range dump.Endpoints { // before the sets: what an endpoint may have makes them needed
		if ep := d.endpoints[ed.ID]; ep != nil && !ed.Known {
			ep.actual, ep.version, ep.attempts = nil, "", ed.Maybe
			ep.state.brokeOff()
			d.pin(ep)
			d.hold(ep, ipsets.RefApplied, nil)
		}
	}
	for _, s := range dump.Sets {
		d.restoreRefused(s)
	}
	d.leaveOut()
	d.renderDirty()
	for _, ed := range dump.Endpoints {
		if ep := d.endpoints[ed.ID]; ep != nil {
			d.restoreEndpoint(ep, ed)
		}
	}
	for _, s := range dump.Sets { // now that what is held again is defined
		if n, ok := d.cache.Lookup(s.ID); ok {
			d.restoreSet(n, s)
		}
	}
	d.restoreDue(dump.Due)
	d.restoreStarts(dump.Pods)
	d.found, d.ruled = nil, nil // they were told
	d.progress.goOn(place{})
}

// restoreRefused leaves a set out that HNS refuses, and knows of one that may be there.
func (d *core) restoreRefused(s state.Set) {
	n, ok := d.cache.Lookup(s.ID)
	if !ok && s.Unknown { // nobody needs it, and it may be there
		if n, ok = ipsets.ParseName(s.Name, s.Type == string(hns.NestedIPSet)); ok {
			d.cache.Unknown(n)
		}
	}
	if ok && s.Refused {
		d.cache.Reject(n)
		d.leftOut[n] = true
	}
}

// restoreDue gives a core what a dump has of what waits for its time.
func (d *core) restoreDue(due state.Due) {
	clear(d.subqueues)
	for _, l := range due.Queues {
		d.subqueues[l.Name] = subqueue{l.Next, l.Order, l.Turn}
	}
	d.setWork.read = backoff.Retry{Tries: due.Spare.Attempts, At: due.Spare.At}
	d.turn, d.readFrom = due.Turn, due.Read
	for _, nd := range due.New {
		n := &unreadEndpoint{came: nd.Came, Retry: backoff.Retry{Tries: nd.Attempts, At: nd.At}}
		if nd.Error != "" {
			n.err = told{text: nd.Error}
		}
		d.unread[nd.ID] = n
	}
}

// listingOf returns the listing of endpoints that a dump says is due.
func listingOf(due state.Due) listing {
	l := listing{retry: backoff.Retry{Tries: due.Listing.Attempts, At: due.Listing.At}, unsettled: due.Unsettled}
	if due.Listing.Error != "" {
		l.err = errors.New(due.Listing.Error)
	}
	return l
}

// restoreSet gives a set what a dump has of its last write, and since when
// it is as it is.
func (d *core) restoreSet(n ipsets.Name, s state.Set) {
	switch {
	case s.Unknown && s.Ending:
		d.cache.MaybeRemoved(n)
	case s.Unknown:
		d.cache.Unknown(n)
	}
	d.cache.Recall(n, s.Spare, s.Since)
	d.cache.Resume(n, s.Suspect, s.Clings)
	d.cache.Reread(n, s.Reading)
	d.restoreAgain(n, s)
}

// restoreEndpoint gives an endpoint what a dump has of it beside its rules.
func (d *core) restoreEndpoint(ep *endpoint, ed state.Endpoint) {
	next := ed.Next
	refuse := func(key policy.Key, digest string) {
		if slices.Contains(next.Refused, key.String()) {
			a := next.Again[key.String()]
			ep.refused[key] = refusal{digest, backoff.Again{Code: a.Code, Tries: a.Attempts, At: a.At}}
		}
	}
	for _, g := range ep.desired.groups {
		refuse(g.key, g.digest)
	}
	for _, a := range ep.desired.shared {
		refuse(ruleKey(a), ruleDigest(a))
	}
	ep.restoreCompromises(next)
	ep.came, ep.netns = next.Came, next.Netns
	ep.bornFor, ep.bornIn, ep.writtenFor = types.UID(next.BornFor), next.BornIn, types.UID(next.WrittenFor)
	if ed.Known {
		ep.version = next.Version
	}
	d.queue(ep)
	ep.writtenFor = types.UID(next.WrittenFor)
	ep.retryAt, ep.distrusted, ep.repair, ep.changes = next.Due, next.Distrusted, next.Repair, next.Conflicts
	ep.unlisted, ep.exposed = next.Unlisted, next.Exposed
	ep.tries, ep.lastErr = next.Attempts, nil
	if next.Error != "" {
		ep.lastErr = told{next.Error, next.Invalid}
	}
	if ep.pending() || next.Turn > 0 { // one that failed and turned out right is there until its turn
		ep.since, ep.subqueue, ep.turn = ed.Since, next.Queue, max(next.Turn, 1)
		ep.state.join()
		if ns, name, ok := strings.Cut(next.ChangedBy, "/"); ok {
			ep.changedBy = policy.Key{Namespace: ns, Name: name}
		}
	}
	ep.state.recall(next)
}

// told is an error that is known from a dump.
type told struct {
	text    string
	invalid bool
}

// Error implements error.
func (t told) Error() string { return t.text }

// Is tells the one class that matters for a warning.
func (t told) Is(target error) bool { return t.invalid && target == hns.ErrInvalid }

// objectsOf returns a transaction of everything that a dump has of the cluster.
func objectsOf(dump state.Dump) (*Transaction, error) {
	tx := NewTransaction()
	for _, ns := range dump.Namespaces {
		tx.SetNamespace(Namespace(ns))
	}
	for _, pd := range dump.Policies {
		ns, name, ok := strings.Cut(pd.Policy, "/")
		if !ok || pd.Spec == nil {
			return nil, fmt.Errorf("policy %q without namespace or spec", pd.Policy)
		}
		tx.SetPolicy(&networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Spec: *pd.Spec})
	}
	for _, n := range dump.Nodes {
		tx.SetNode(n)
	}
	for _, pd := range dump.ClusterPolicies {
		if pd.Name == "" || pd.Spec == nil {
			return nil, fmt.Errorf("ClusterNetworkPolicy %q without name or spec", pd.Name)
		}
		tx.SetClusterPolicy(objectOfDump(pd))
	}
	for _, pd := range dump.Pods {
		p, err := podOf(pd)
		if err != nil {
			return nil, fmt.Errorf("pod %q: %w", pd.Pod, err)
		}
		tx.SetPod(p)
	}
	addrs, err := parseAddrs(dump.NodeAddrs)
	if err != nil {
		return nil, fmt.Errorf("node: %w", err)
	}
	if len(addrs) > 0 {
		tx.SetNodeAddrs(addrs)
	}
	return tx, nil
}

// podOf is the inverse of dumping a pod.
func podOf(pd state.Pod) (Pod, error) {
	ns, name, ok := strings.Cut(pd.Pod, "/")
	if !ok {
		return Pod{}, errors.New("no namespace")
	}
	p := Pod{
		Namespace: ns, Name: name, UID: types.UID(pd.UID), Labels: pd.Labels, Local: pd.Local,
		HostNetwork: pd.HostNetwork, Finished: pd.Finished, Deleting: pd.Deleting, Started: pd.Started, Created: pd.Created,
		Sandbox: pd.Sandbox, OverBudget: pd.OverBudget,
	}
	if pd.Addr != "" {
		addrs, err := parseAddrs([]string{pd.Addr})
		if err != nil {
			return Pod{}, err
		}
		p.Addr = addrs[0]
	}
	for _, text := range pd.Ports {
		port, err := parsePodPort(text)
		if err != nil {
			return Pod{}, err
		}
		p.Ports = append(p.Ports, port)
	}
	return p, nil
}

// parsePodPort reads name:number/protocol.
func parsePodPort(text string) (PodPort, error) {
	name, rest, _ := strings.Cut(text, ":")
	digits, protocol, _ := strings.Cut(rest, "/")
	number, err := strconv.ParseUint(digits, 10, 16)
	if err != nil {
		return PodPort{}, fmt.Errorf("port %q: %w", text, err)
	}
	for _, proto := range []policy.Protocol{policy.TCP, policy.UDP, policy.SCTP} {
		if string(proto) == protocol {
			return PodPort{Name: name, Protocol: proto, Number: uint16(number)}, nil
		}
	}
	return PodPort{}, fmt.Errorf("port %q: no such protocol", text)
}

// parseAddrs reads IPv4 addresses.
func parseAddrs(texts []string) ([]netip.Addr, error) {
	out := make([]netip.Addr, len(texts))
	for i, text := range texts {
		a, err := netip.ParseAddr(text)
		if err != nil || !a.Is4() {
			return nil, fmt.Errorf("%q is no IPv4 address", text)
		}
		out[i] = a
	}
	return out, nil
}

// ViewOf returns what HNS has as far as a dump knows it. Of the others' policies
// these are the rules only; and of what is not known, what was last known. It
// fails with ErrDump.
func ViewOf(dump state.Dump) (View, error) {
	ids := make(map[string]string, len(dump.Sets))
	for _, s := range dump.Sets {
		ids[s.Name] = s.ID
	}
	empty := ipsets.Empty().String()
	if ids[empty] == "" {
		ids[empty] = ipsets.Empty().ID()
	}
	var v View
	for _, s := range dump.Sets {
		if s.InHNS {
			v.Sets = append(v.Sets, setOf(s, ids))
		}
	}
	for _, ed := range dump.Endpoints {
		addrs, err := parseAddrs(ed.Addrs)
		if err != nil {
			return View{}, fmt.Errorf("%w: endpoint %s: %w", ErrDump, ed.ID, err)
		}
		e := hns.Endpoint{ID: ed.ID, Addrs: addrs, Netns: ed.Next.Netns}
		for _, a := range slices.Concat(ed.ForeignRules, ed.Applied) {
			e.Policies = append(e.Policies, hns.NewACLPolicy(a))
		}
		v.Endpoints = append(v.Endpoints, e)
	}
	return v, nil
}

// setOf returns a set as HNS has it; ids are those of all sets, by name.
func setOf(s state.Set, ids map[string]string) hns.SetPolicy {
	p := hns.SetPolicy{ID: s.ID, Name: cmp.Or(s.Called, s.Name), Type: hns.SetType(s.Type)}
	values := slices.Concat(s.Members, s.Surplus)
	if p.Type == hns.NestedIPSet {
		values = append(values, ipsets.Empty().String())
	}
	missing := make(map[string]bool, len(s.Missing))
	for _, text := range s.Missing {
		missing[text] = true
	}
	for _, text := range values {
		if missing[text] {
			continue
		}
		if id := ids[text]; p.Type == hns.NestedIPSet && id != "" {
			text = id
		}
		p.Values = append(p.Values, text)
	}
	return p
}

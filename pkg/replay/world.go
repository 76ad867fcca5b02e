package replay

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"time"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/hnssim"
)

// subject is what a write changes: a set, or the rules of an endpoint.
type subject struct{ set, endpoint string } // ids

// world is what HNS has by what was recorded so far: what was read last, and
// what was written since. The judge is a simulator in the same state, as near as
// it can be brought: it does not take everything that may be on a real node.
type world struct {
	network   hns.Network // without its sets
	sets      map[string]hns.SetPolicy
	endpoints map[string]hns.Endpoint
	absent    map[string]bool   // endpoints that the last listing or enumeration lacked
	strange   map[string]bool   // enumerated and not ours, as far as is known
	names     map[string]string // of sets, also of those that are gone
	setsRead  bool              // before that nobody knows which sets there are
	// vague are the subjects that the dump at the start does not have, or only in part. The
	// first read of one ends that.
	vague map[subject]bool
	// partial are endpoints of a dump, which does not have all that others put there.
	partial map[string]bool
	// doubts are the writes that failed and may have been done; at most mostDoubts of a subject.
	// Of one in crowded there are more, so that nobody says what it may be.
	doubts  map[subject][]doubt
	crowded map[subject]bool
	wrote   map[subject]write // the last one that was done
	// versions are what endpoints were read to be, for reads that were kept by
	// their version only.
	versions map[string]map[hns.Version]hns.Endpoint

	judge  *hnssim.Sim
	judged map[string]hns.SetPolicy // its sets
}

// doubt is what a write that failed would have led to.
type doubt struct {
	step  uint64
	call  int
	set   hns.SetPolicy // Type "": gone
	rules []hns.ACL     // of the endpoint
}

// mostDoubts is how many writes of a subject are held against the next read of it. An agent
// reads after a write whose outcome it does not know, so there are one or two. Whoever writes a
// recording by hand has each of them carried through all that follow.
const mostDoubts = 16

// doubted notes a write that failed and may have been done.
func (w *world) doubted(s subject, d doubt) {
	if len(w.doubts[s]) == mostDoubts || w.crowded[s] {
		w.crowded[s] = true
		delete(w.doubts, s)
		return
	}
	w.doubts[s] = append(w.doubts[s], d)
}

// write is what was there before a write, for a read that overlapped with it.
type write struct {
	end    time.Time
	set    hns.SetPolicy
	before hns.Endpoint
}

func newWorld() *world {
	return &world{
		sets: map[string]hns.SetPolicy{}, endpoints: map[string]hns.Endpoint{}, absent: map[string]bool{}, strange: map[string]bool{},
		crowded: map[subject]bool{}, vague: map[subject]bool{}, partial: map[string]bool{}, doubts: map[subject][]doubt{}, wrote: map[subject]write{},
		versions: map[string]map[hns.Version]hns.Endpoint{}, names: map[string]string{},
		judge: hnssim.New(hnssim.Options{}), judged: map[string]hns.SetPolicy{},
	}
}

// asked is one call of the dataplane.
type asked struct{ hns.Request }

// on makes the call to a client, also when the context is over.
func (a asked) on(ctx context.Context, c hns.Client) hns.Result {
	return a.Do(context.WithoutCancel(ctx), c)
}

// read answers a read from what is there.
func (w *world) read(a asked) (out hns.Result) {
	switch a.Op {
	case hns.OpNetworkGet:
		out.Network = w.network
		for _, id := range sorted(w.sets) {
			out.Network.Sets = append(out.Network.Sets, w.sets[id])
		}
	case hns.OpEndpointIDs:
		out.IDs = w.ids()
	case hns.OpEndpointNew: // which of them nothing uses yet, a dump does not say
	default:
		e, ok := w.endpoints[a.Endpoint]
		switch {
		case w.strange[a.Endpoint]:
			out.Err = &hns.OpError{Op: a.Op, Kind: hns.KindEndpoint, ID: a.Endpoint, Err: hns.ErrElsewhere}
		case !ok:
			out.Err = &hns.OpError{Op: a.Op, Kind: hns.KindEndpoint, ID: a.Endpoint, Err: hns.ErrNotFound}
		}
		out.Endpoint = e
	}
	return out
}

// ids are the GUIDs that an enumeration has.
func (w *world) ids() []string {
	out := slices.DeleteFunc(sorted(w.endpoints), func(id string) bool { return w.absent[id] })
	for _, id := range sorted(w.strange) {
		if _, ours := w.endpoints[id]; !ours {
			out = append(out, id)
		}
	}
	return out
}

// subjects are what a write is about.
func (a asked) subjects() []subject {
	if a.Endpoint != "" {
		return []subject{{endpoint: a.Endpoint}}
	}
	out := make([]subject, len(a.Sets))
	for i, s := range a.Sets {
		out[i] = subject{set: s.ID}
	}
	return out
}

// after returns what a write leads to, subject by subject.
func (w *world) after(a asked) []doubt {
	switch a.Op {
	case hns.OpACLAdd:
		ours, _ := w.endpoints[a.Endpoint].Split()
		return []doubt{{rules: append(ours, canonical(a.ACLs)...)}}
	case hns.OpACLUpdate:
		ours, _ := hns.Endpoint{Policies: a.Policies}.Split()
		return []doubt{{rules: ours}}
	}
	out := make([]doubt, len(a.Sets))
	for i, s := range a.Sets {
		switch _, there := w.sets[s.ID]; {
		case a.Verb() == hns.Remove, a.Verb() == hns.Update && !there: // of a missing set: silently ignored
		default:
			out[i].set = s
		}
	}
	return out
}

// do applies a write that HNS did; it ended at end.
func (w *world) do(a asked, end time.Time) {
	after := w.after(a)
	for i, s := range a.subjects() {
		w.wrote[s] = write{end: end, set: w.sets[s.set], before: w.endpoints[s.endpoint]}
		if a.Op == hns.OpACLAdd { // it rewrites nothing: what may have been done is still there
			for j := range w.doubts[s] {
				w.doubts[s][j].rules = append(slices.Clip(w.doubts[s][j].rules), canonical(a.ACLs)...)
			}
		} else {
			delete(w.doubts, s)
			delete(w.crowded, s)
		}
		switch {
		case s.endpoint != "":
			e, ok := w.endpoints[s.endpoint]
			if !ok {
				e = hns.Endpoint{ID: s.endpoint}
			}
			e.Policies = a.Policies
			if a.Op == hns.OpACLAdd {
				e.Policies = slices.Clone(w.endpoints[s.endpoint].Policies)
				for _, rule := range a.ACLs {
					e.Policies = append(e.Policies, hns.NewACLPolicy(rule))
				}
			}
			w.endpoints[s.endpoint] = e
			delete(w.absent, s.endpoint)
		case after[i].set.Type == "":
			delete(w.sets, s.set)
		default:
			w.sets[s.set], w.names[s.set] = after[i].set, after[i].set.Name
		}
	}
}

// setID is an id of ours in a text.
var setID = regexp.MustCompile(hns.SetIDPrefix + "[0-9A-Za-z]+")

// readable replaces the ids of sets by their names.
func (w *world) readable(line string) string {
	return setID.ReplaceAllStringFunc(line, func(id string) string { return cmp.Or(w.names[id], id) })
}

// ----- the judge -----

// sync gives the judge the world's state of these subjects.
func (w *world) sync(subjects []subject) {
	var gone, nested []string
	for _, s := range subjects {
		set, there := w.sets[s.set]
		if there {
			w.names[set.ID] = set.Name
		}
		switch {
		case s.endpoint != "":
		case !there:
			gone = append(gone, s.set)
		case set.Type == hns.NestedIPSet:
			nested = append(nested, s.set)
		default:
			w.putSet(set)
		}
	}
	for _, id := range nested { // their members come first
		w.putSet(w.sets[id])
	}
	w.dropSets(gone)
	for _, s := range subjects {
		if s.endpoint != "" {
			w.putEndpoint(s.endpoint)
		}
	}
}

// putSet makes a set in the judge, or as much of it as it takes.
func (w *world) putSet(s hns.SetPolicy) {
	if was, there := w.judged[s.ID]; there && (was.Type != s.Type || was.Name != s.Name) {
		w.dropSets([]string{s.ID})
	}
	if w.judge.PutSet(s) != nil {
		for id, other := range w.judged {
			if other.Name == s.Name && id != s.ID {
				w.dropSets([]string{id})
			}
		}
		s.Values = slices.DeleteFunc(slices.Clone(s.Values), func(v string) bool {
			_, address := hns.ParseSpan(v)
			return s.Type == hns.IPSet && !address || s.Type == hns.NestedIPSet && w.judged[v].Type != hns.IPSet
		})
		if w.judge.PutSet(s) != nil {
			return
		}
	}
	w.judged[s.ID] = s
}

// dropSets removes sets from the judge, also such as are in use there.
func (w *world) dropSets(ids []string) {
	lost := map[string]bool{}
	for _, id := range ids {
		if _, there := w.judged[id]; there && w.judge.DropSet(id) != nil {
			lost[id] = true
		} else {
			delete(w.judged, id)
		}
	}
	if len(lost) == 0 {
		return
	}
	for _, e := range w.judge.Endpoints() {
		kept := slices.DeleteFunc(slices.Clone(e.Policies), func(p hns.EndpointPolicy) bool {
			a, err := p.ACL()
			return err == nil && slices.ContainsFunc(a.SetIDs(), func(id string) bool { return lost[id] })
		})
		if len(kept) < len(e.Policies) {
			_ = w.judge.SetPolicies(e.ID, kept) // what was there cannot be refused
		}
	}
	w.shrinkLists(lost)
	for _, of := range []hns.SetType{hns.NestedIPSet, hns.IPSet} {
		for id := range lost {
			if w.judged[id].Type == of && w.judge.DropSet(id) == nil {
				delete(w.judged, id)
			}
		}
	}
}

// shrinkLists takes sets out of the lists of the judge.
func (w *world) shrinkLists(lost map[string]bool) {
	for _, s := range w.judged {
		if s.Type == hns.NestedIPSet && slices.ContainsFunc(s.Values, func(id string) bool { return lost[id] }) {
			s.Values = slices.DeleteFunc(slices.Clone(s.Values), func(id string) bool { return lost[id] })
			w.putSet(s)
		}
	}
}

// putEndpoint makes an endpoint in the judge as it is in the world, but for
// policies that the judge does not take.
func (w *world) putEndpoint(id string) {
	e, there := w.endpoints[id]
	if !there {
		_ = w.judge.DeleteEndpoint(id) // or it never was there
		return
	}
	if view, ok := w.judge.Endpoint(id); ok && !slices.Equal(view.Addrs, e.Addrs) {
		_ = w.judge.DeleteEndpoint(id)
	}
	if _, ok := w.judge.Endpoint(id); !ok {
		addrs := slices.DeleteFunc(slices.Clone(e.Addrs), func(a netip.Addr) bool { return !a.IsValid() })
		err := w.judge.CreateEndpoint(hnssim.NewEndpoint{ID: id, Addrs: addrs, Policies: []hns.EndpointPolicy{}})
		if err != nil {
			return // it has no id
		}
	}
	state := hnssim.AttachedSharing
	if w.absent[id] {
		state = hnssim.Detached
	}
	_ = w.judge.SetState(id, state) // it is there
	if w.judge.SetPolicies(id, e.Policies) == nil {
		return
	}
	taken := slices.DeleteFunc(slices.Clone(e.Policies), func(p hns.EndpointPolicy) bool {
		return w.judge.SetPolicies(id, []hns.EndpointPolicy{p}) != nil
	})
	_ = w.judge.SetPolicies(id, taken) // each of them was taken
}

// fork returns a simulator in the state of the world, for a dataplane that goes
// another way.
func (w *world) fork() *hnssim.Sim {
	f := newWorld()
	f.sets, f.endpoints, f.absent = w.sets, w.endpoints, w.absent
	f.judge = hnssim.New(hnssim.Options{Network: w.network.Name, ID: w.network.ID})
	f.sync(w.all())
	for _, id := range sorted(w.strange) {
		_ = f.judge.CreateEndpoint(hnssim.NewEndpoint{ID: id, Remote: true}) // or it is there as one of ours
	}
	return f.judge
}

// all are the subjects of everything that is there, in order.
func (w *world) all() []subject {
	var out []subject
	for _, id := range sorted(w.sets) {
		out = append(out, subject{set: id})
	}
	for _, id := range sorted(w.endpoints) {
		out = append(out, subject{endpoint: id})
	}
	return out
}

// ----- comparing -----

func canonical(acls []hns.ACL) []hns.ACL {
	out := make([]hns.ACL, len(acls))
	for i, a := range acls {
		out[i] = a.Canonical()
	}
	return out
}

// difference compares two lists as multisets.
func difference[T comparable](want, have []T) (missing, surplus []T) {
	count := map[T]int{}
	for _, v := range have {
		count[v]++
	}
	for _, v := range want {
		if count[v]--; count[v] < 0 {
			missing = append(missing, v)
		}
	}
	clear(count)
	for _, v := range want {
		count[v]++
	}
	for _, v := range have {
		if count[v]--; count[v] < 0 {
			surplus = append(surplus, v)
		}
	}
	return missing, surplus
}

func same[T comparable](a, b []T) bool {
	missing, surplus := difference(a, b)
	return len(missing)+len(surplus) == 0
}

func sameSet(a, b hns.SetPolicy) bool {
	return a.Type == b.Type && a.Name == b.Name && same(a.Values, b.Values)
}

func samePolicies(a, b []hns.EndpointPolicy) bool {
	return hns.VersionOf(nil, nil, a) == hns.VersionOf(nil, nil, b)
}

// class returns the class of an error, nil for none of them.
func class(err error) error {
	for _, c := range classes {
		if errors.Is(err, c) {
			return c
		}
	}
	return nil
}

var classes = []error{
	hns.ErrNotFound, hns.ErrAlreadyExists, hns.ErrInUse, hns.ErrConflict, hns.ErrInvalid, hns.ErrElsewhere, hns.ErrUnlisted, hns.ErrUnavailable,
}

// sorted returns the keys of a map in order.
func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

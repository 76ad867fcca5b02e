package torture

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/winnpm/winnpm/test/oracle"
	"github.com/winnpm/winnpm/test/script"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// gaps are the times in which an endpoint let a packet through that its pod's policies deny
// with every subset of the outstanding changes. They begin when the agent knows both, the
// pod from an event and the endpoint from a read.
type gaps struct {
	ever   *outstanding            // every version that there ever was
	births map[string]*outstanding // by key of the pod: since it came
	open   map[string]gap          // by endpoint
	closed []gap
	probes map[string][]packet // by endpoint, pod and versions
}

// gap is one time.
type gap struct {
	id      string
	pod     types.UID
	first   int       // call
	since   time.Time // of it
	packets int       // that it let through at first
	// When it was over: calls of whatever, those of the endpoint among them, and how
	// many endpoints there were.
	calls, own, endpoints int
	took                  time.Duration
}

func (g gap) String() string {
	return fmt.Sprintf("%s of pod %s from call %d on: %d calls, %d of them of the endpoint, of %d endpoints; %v, %d packets at first",
		g.id, g.pod, g.first, g.calls, g.own, g.endpoints, g.took, g.packets)
}

// end returns the gap as it is when it ends now.
func (g gap) end(l *life) gap {
	g.endpoints = len(l.sim.Endpoints())
	g.calls, g.took = len(l.calls)-g.first, l.now.Sub(g.since)
	for _, c := range l.calls[g.first:] {
		if strings.EqualFold(c.Target, g.id) {
			g.own++
		}
	}
	return g
}

func newGaps() *gaps {
	return &gaps{
		ever: newOutstanding(newMemo()), births: map[string]*outstanding{}, open: map[string]gap{}, probes: map[string][]packet{},
	}
}

// learn takes the events of a transaction in. Of its own and of its policies a pod
// has the versions since it came; of what may be in a set all that there ever were.
func (g *gaps) learn(todo *outstanding, events []event) {
	before := maps.Clone(todo.now)
	for _, e := range events {
		todo.change(e)
		g.ever.change(e)
		for _, birth := range g.births {
			birth.change(e)
		}
	}
	for key, o := range todo.now {
		if o.Pod == nil || before[key] != nil {
			continue
		}
		birth := newOutstanding(newMemo())
		birth.now = maps.Clone(todo.now)
		for other, versions := range g.ever.versions {
			if is := versions[len(versions)-1]; other != key && (is == nil && strings.HasPrefix(other, "pod ") || is != nil && (is.Pod != nil || is.Namespace != nil)) {
				birth.versions[other] = slices.Clone(versions)
			}
		}
		g.births[key] = birth
	}
}

// measure looks at every endpoint after a call.
func (g *gaps) measure(l *life) {
	now := cluster(l.todo.now.values())
	there := map[string]bool{}
	for _, e := range l.sim.Endpoints() {
		there[e.ID] = true
		g.measureOne(l, now, e)
	}
	for id := range g.open {
		if !there[id] {
			delete(g.open, id)
		}
	}
}

func (g *gaps) measureOne(l *life, now oracle.Cluster, e hnssim.EndpointView) {
	home := oracle.Residents(now, e.Addrs[0])
	was, open := g.open[e.ID]
	if len(home) == 0 || !l.read[strings.ToLower(e.ID)] {
		delete(g.open, e.ID)
		return
	}
	owner := home[0]
	packets := 0
	for _, p := range g.denied(l, e, owner.UID, version(0, "pod "+owner.Namespace+"/"+owner.Name, script.Object{Pod: owner}).key) {
		v, err := l.sim.Trace(e.ID, p.dir, p.Packet)
		if err != nil {
			l.fail("%v", err)
		}
		if v.Allowed {
			packets++
		}
	}
	switch {
	case open && packets == 0:
		g.closed = append(g.closed, was.end(l))
		delete(g.open, e.ID)
	case packets > 0 && (!open || was.pod != owner.UID):
		g.open[e.ID] = gap{id: e.ID, pod: owner.UID, first: len(l.calls), since: l.now, packets: packets}
	}
}

// perDirection is how many packets are asked about at an endpoint in a direction.
const perDirection = 4

// denied returns packets that an endpoint of a pod must not let through with any subset of
// the outstanding changes.
func (g *gaps) denied(l *life, e hnssim.EndpointView, uid types.UID, key string) []packet {
	birth := g.births[key]
	at := e.ID + " " + key + " " + birth.fingerprint()
	if packets, ok := g.probes[at]; ok {
		return packets
	}
	var packets []packet
	count := map[string]int{}
	for _, p := range l.sc.packets[e.Addrs[0]] {
		if dir := string(p.dir); count[dir] < perDirection && birth.denies(p, uid) {
			count[dir]++
			packets = append(packets, p)
		}
	}
	g.probes[at] = packets
	return packets
}

// maxDenials bounds the subsets that are tried for a packet; beyond nothing is said.
const maxDenials = 1 << 8

// denies reports whether every subset of the changes denies a packet of the pod, as
// long as that has the address.
func (o *outstanding) denies(p packet, uid types.UID) bool {
	fixed, moving := o.relevant(p)
	keys := slices.Sorted(maps.Keys(moving))
	combinations := 1
	for _, key := range keys {
		if combinations *= len(moving[key]); combinations > maxDenials || len(p.meetings(moving[key])) > 0 {
			return false
		}
	}
	for n := range combinations {
		objects := slices.Clone(fixed)
		for _, key := range keys {
			objects = append(objects, one(moving[key][n%len(moving[key])])...)
			n /= len(moving[key])
		}
		c := cluster(objects)
		allowed, _ := verdict(c, p)
		if home := oracle.Residents(c, p.own()); len(home) > 0 && home[0].UID == uid && allowed {
			return false
		}
	}
	return true
}

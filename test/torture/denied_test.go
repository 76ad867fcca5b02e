package torture

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/winnpm/winnpm/test/oracle"
	"github.com/winnpm/winnpm/test/script"
)

// births has, for each pod of the node, what is outstanding since it came: of its own and of its
// policies the versions since then, of what may be in a set all that there ever were.
type births struct {
	ever *outstanding            // every version that there ever was
	of   map[string]*outstanding // by key of the pod
}

// learn takes the events of a transaction in.
func (b *births) learn(todo *outstanding, events []event) {
	before := maps.Clone(todo.now)
	for _, e := range events {
		todo.change(e)
		b.ever.change(e)
		for _, birth := range b.of {
			birth.change(e)
		}
	}
	for key, o := range todo.now {
		if o.Pod == nil || before[key] != nil {
			continue
		}
		birth := newOutstanding(newMemo())
		birth.now = maps.Clone(todo.now)
		for other, versions := range b.ever.versions {
			if is := versions[len(versions)-1]; other != key && (is == nil && strings.HasPrefix(other, "pod ") || is != nil && (is.Pod != nil || is.Namespace != nil)) {
				birth.versions[other] = slices.Clone(versions)
			}
		}
		b.of[key] = birth
	}
}

// checkClosed: HNS lets no packet through that the policies of the endpoint's pod deny with every
// subset of the changes since the pod came. The process must have read the endpoint once.
func (l *life) checkClosed() {
	now := cluster(l.todo.now.values())
	for _, e := range l.sim.Endpoints() {
		home := oracle.Residents(now, e.Addrs[0])
		if len(home) == 0 || !l.read[strings.ToLower(e.ID)] || l.odd.whimsical && l.odd.blind == e.ID {
			continue // of a blind one HNS took the block and did nothing, and nobody can see that
		}
		owner := home[0]
		birth := l.births.of[version(0, "pod "+owner.Namespace+"/"+owner.Name, script.Object{Pod: owner}).key]
		for _, p := range l.sc.packets[e.Addrs[0]] {
			v, err := l.sim.Trace(e.ID, p.dir, p.Packet)
			if err != nil {
				l.fail("%v", err)
			}
			if v.Allowed && birth.denies(p, owner.UID) {
				l.fail("endpoint %s of pod %s lets %+v through", e.ID, owner.UID, p)
			}
		}
	}
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

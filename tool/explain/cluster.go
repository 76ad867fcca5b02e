package explain

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// ErrNoEnd says that a question names an end that has no traffic, as far as the dump knows.
var ErrNoEnd = errors.New("cannot be asked about")

// Cluster is a dump with indexes, for many questions. It keeps what it has taken
// apart; one goroutine may use it at a time, and nobody may change the dump
// meanwhile.
type Cluster struct {
	dump       *state.Dump
	pods       map[string]*state.PodDump
	owners     map[netip.Addr]*state.PodDump
	hosts      map[netip.Addr]*state.PodDump // one of the pods in a node's network
	namespaces map[string]map[string]string
	relabeled  map[string]map[string]string // namespaces with other labels, of which only a question is
	endpoints  map[string]*state.EndpointDump
	setByID    map[string]*state.SetDump
	setByName  map[string]*state.SetDump
	setNames   SetNames
	// views are the sets as HNS has them, without and with what is not known, and
	// as they should be; lists are the rules of endpoints in these views.
	views    [3]*view
	lists    map[listKey]parsed
	isolated map[hns.Direction]map[string][]string // the policies that isolate in a direction, by pod
	// clusters are the ClusterNetworkPolicies in the order of evaluation; subjectRules are
	// their rules by pod.
	clusters     []*policy.Policy
	subjectRules map[subjectKey][]tierRule
}

// New returns the cluster of a dump.
func New(dump state.Dump) *Cluster {
	d := &dump
	c := &Cluster{
		dump: d, pods: map[string]*state.PodDump{}, owners: map[netip.Addr]*state.PodDump{}, hosts: map[netip.Addr]*state.PodDump{},
		namespaces: map[string]map[string]string{}, endpoints: map[string]*state.EndpointDump{},
		setByID: map[string]*state.SetDump{}, setByName: map[string]*state.SetDump{}, setNames: SetNames{},
		isolated: map[hns.Direction]map[string][]string{hns.In: {}, hns.Out: {}},
		lists:    map[listKey]parsed{}, clusters: compileClusters(dump.ClusterPolicies),
		subjectRules: map[subjectKey][]tierRule{},
	}
	c.views = [...]*view{
		closed: {c: c, actual: true, sets: map[string]viewed{}},
		open:   {c: c, actual: true, open: true, sets: map[string]viewed{}},
		wanted: {c: c, sets: map[string]viewed{}},
	}
	for i := range d.Pods {
		c.addPod(&d.Pods[i])
	}
	for _, ns := range d.Namespaces {
		if ns.OverBudget == "" {
			c.namespaces[ns.Name] = ns.Labels
		}
	}
	for _, p := range d.Policies {
		for dir, is := range map[hns.Direction]bool{hns.In: p.Ingress, hns.Out: p.Egress} {
			for _, pod := range p.Selected {
				if is {
					c.isolated[dir][pod] = append(c.isolated[dir][pod], p.Policy)
				}
			}
		}
	}
	for i := range d.Endpoints {
		c.endpoints[d.Endpoints[i].ID] = &d.Endpoints[i]
	}
	for i := range d.Sets {
		s := &d.Sets[i]
		c.setByID[s.ID], c.setNames[s.ID] = s, s.Name
		// Of two sets of one name, take the one that something refers to.
		if other := c.setByName[s.Name]; other == nil || len(other.Holders) == 0 {
			c.setByName[s.Name] = s
		}
	}
	return c
}

// addPod records a pod, and who has its address.
func (c *Cluster) addPod(p *state.PodDump) {
	c.pods[p.Pod] = p
	addr, err := netip.ParseAddr(p.Addr)
	switch {
	case err != nil || !addr.Is4() || p.Finished:
	case p.HostNetwork:
		c.hosts[addr] = p
	case p.Owner:
		c.owners[addr] = p
	}
}

// Dump returns the dump, which nobody may change.
func (c *Cluster) Dump() *state.Dump { return c.dump }

// Owns returns the address of a pod of the dump; false when it has none, or when another
// pod owns it.
func (c *Cluster) Owns(pod *state.PodDump) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(pod.Addr)
	return addr, err == nil && c.owners[addr] == pod && c.pods[pod.Pod] == pod && pod.LostUntil.IsZero()
}

// End is one end of a connection.
type End struct {
	Name string // as asked
	addr netip.Addr
	pod  *state.PodDump // that owns addr; nil when none does
	// named is the pod that was asked about by its name; nil for an address.
	named *state.PodDump
	note  string
	// endpoints are those of pod on this node.
	endpoints []*state.EndpointDump
}

// Pod returns the pod whose traffic it is: the one that owns the address or, when
// none does, the one that was named; nil when there is neither.
func (e End) Pod() *state.PodDump { return cmp.Or(e.pod, e.named) }

// Addr returns the address at which the end is.
func (e End) Addr() netip.Addr { return e.addr }

// End finds what is asked about: namespace/name of a pod, an address, or Node. It
// fails with ErrNoEnd for what cannot be asked about.
func (c *Cluster) End(name string) (End, error) {
	if name == Node {
		for _, text := range c.dump.NodeAddrs {
			if addr, err := netip.ParseAddr(text); err == nil && addr.Is4() {
				return c.at(name, addr), nil
			}
		}
		return End{}, fmt.Errorf("the node %w: no address of it is known", ErrNoEnd)
	}
	if addr, err := netip.ParseAddr(name); err == nil {
		return c.at(name, addr), nil
	}
	p, ok := c.pods[name]
	switch {
	case !ok:
		return End{}, fmt.Errorf("%s %w: there is no such pod%s", name, ErrNoEnd, c.similar(name))
	case p.Finished:
		return End{}, fmt.Errorf("%s %w: the pod has finished, its address is given up", name, ErrNoEnd)
	case p.Addr == "":
		return End{}, fmt.Errorf("%s %w: the pod has no IPv4 address, or none yet; WinNPM judges IPv4 only", name, ErrNoEnd)
	}
	addr, err := netip.ParseAddr(p.Addr)
	if err != nil || !addr.Is4() {
		return End{}, fmt.Errorf("%s %w: its address %q is none", name, ErrNoEnd, p.Addr)
	}
	e := c.at(name, addr)
	e.named = p
	switch {
	case p.HostNetwork:
		e.note = fmt.Sprintf("%s uses its node's network: no policy selects it, rules know it as %s", name, addr)
	case c.doubt(e) != "":
	case e.pod == nil:
		e.note = fmt.Sprintf("%s is not the owner of its address %s", name, addr)
	case e.pod.Pod != name:
		e.note = fmt.Sprintf("%s and %s claim %s: it is %s that has it", name, e.pod.Pod, addr, e.pod.Pod)
	}
	return e, nil
}

// at returns the end at an address. The pod that owns it is the one there,
// whichever was named.
func (c *Cluster) at(name string, addr netip.Addr) End {
	e := End{Name: name, addr: addr, pod: c.owners[addr]}
	if e.pod != nil {
		e.endpoints = c.endpointsOf(e.pod)
	}
	host := c.hosts[addr]
	switch {
	case c.doubt(e) != "":
		e.note = c.doubt(e)
	case e.pod != nil && e.pod.Pod != name:
		e.note = fmt.Sprintf("%s is pod %s", name, e.pod.Pod)
	case e.pod != nil:
	case slices.Contains(c.dump.NodeAddrs, addr.String()):
		e.note = fmt.Sprintf("%s is the node: nothing is filtered there", addr)
	case host != nil:
		e.note = fmt.Sprintf("%s is the address of a node, of %s for one: nothing is filtered there", addr, host.Pod)
	default:
		e.note = fmt.Sprintf("%s is no pod: nothing is filtered there", addr)
	}
	return e
}

func namespaceOf(object string) string {
	namespace, _, _ := strings.Cut(object, "/")
	return namespace
}

// namespace returns the labels of a namespace; false when they are not known.
func (c *Cluster) namespace(name string) (map[string]string, bool) {
	set, ok := c.relabeled[name]
	if !ok {
		set, ok = c.namespaces[name]
	}
	return set, ok
}

// similarShown is how many names are suggested.
const similarShown = 3

// similar suggests pods for a name that there is not: those that begin with it, as the pods of a workload
// do, and those of the name elsewhere.
func (c *Cluster) similar(name string) string {
	_, short, _ := strings.Cut(name, "/")
	var found []string
	for i := range c.dump.Pods {
		p := c.dump.Pods[i].Pod
		if _, other, _ := strings.Cut(p, "/"); strings.HasPrefix(p, name) || other == short || strings.HasPrefix(other, short+"-") {
			found = append(found, p)
		}
	}
	if len(found) == 0 {
		return ""
	}
	slices.Sort(found)
	return "; there is " + list(found[:min(len(found), similarShown)], "and")
}

// namedRivals is how many pods that claim an address are named.
const namedRivals = 4

// rivals returns the pods that claim the address of a pod and do not give way, with
// that pod, sorted.
func (c *Cluster) rivals(pod *state.PodDump) []*state.PodDump {
	var out []*state.PodDump
	for i := range c.dump.Pods {
		p := &c.dump.Pods[i]
		if p.Addr == pod.Addr && !p.Finished && !p.HostNetwork && !p.Deleting {
			out = append(out, p)
		}
	}
	return out
}

// doubt says of an end that nobody can tell whose its address is, and what follows;
// "" when that is known.
func (c *Cluster) doubt(e End) string {
	if e.pod == nil || !e.pod.InDoubt {
		return ""
	}
	if until := e.pod.LostUntil; !until.IsZero() {
		return fmt.Sprintf("%s, and its containers may run until %s: until then rules that deny include its address, and rules that allow do not", e.pod.Pod, until.UTC().Format(time.RFC3339))
	}
	var names []string
	rivals := c.rivals(e.pod)
	for _, p := range rivals[:min(len(rivals), namedRivals)] {
		names = append(names, p.Pod)
	}
	if more := len(rivals) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return fmt.Sprintf("%s is claimed by %s, of several namespaces: until only one of them claims it, it is in no set, and an endpoint that has it is blocked as the policies of each of them say",
		e.addr, strings.Join(names, ", "))
}

// contested reports whether a pod was asked about that is not known to have its address.
func (e End) contested() bool {
	return e.named != nil && !e.named.HostNetwork && (e.pod == nil || e.pod.Pod != e.named.Pod || e.pod.InDoubt)
}

// isolating returns the policies that isolate a pod of the dump in a direction, sorted:
// in doubt those of the pods that claim its address.
func (c *Cluster) isolating(pod *state.PodDump, dir hns.Direction) []string {
	pods := []*state.PodDump{pod}
	if pod.InDoubt {
		pods = slices.DeleteFunc(c.rivals(pod), func(p *state.PodDump) bool { return !p.InDoubt || !p.Local })
	}
	out := []string{}
	for _, p := range pods {
		out = append(out, c.isolated[dir][p.Pod]...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

package cluster

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// Attack is the objects that an attacker writes: a tenant, who may write policies and pods of one
// namespace, or a compromised node, which may write the status of its pods.
type Attack struct {
	Name    string
	Objects []Object
}

// Bytes returns the length of all objects on the wire, which is less than the length of their JSON.
func (a Attack) Bytes() int {
	sum := 0
	for _, o := range a.Objects {
		sum += o.Make().Size()
	}
	return sum
}

// Attacks returns the known attacks by objects.
func Attacks() []Attack {
	return []Attack{
		{"notin", []Object{peers("notin", "nobody", 400, 0, notIn)}},
		{"namespaces", []Object{peers("namespaces", "nobody", 1000, 0, ofNamespaces)}},
		{"ports", []Object{peers("ports", "db", 1000, 5000, ofValue)}},
		{"peers", []Object{peers("peers", "db", 6000, 0, ofValue)}},
		{"nobody", objects(3, func(i int) Object { return peers(fmt.Sprintf("nobody-%d", i), "nobody", 10_000, 0, ofKey) })},
		{"labels", objects(20, func(i int) Object { return labels(i, 1<<20) })},
		{"ipv6", []Object{peers("ipv6", "db", 50_000, 0, blockIPv6)}},
		{"facts", []Object{peers("facts", "db", 2000, 0, blockIPv6)}},
		{"http", objects(1000, func(i int) Object { // each pod has another number for the named port
			return Pod{Namespace: Tenant, Name: fmt.Sprintf("http-%d", i), Addr: tenantPodAddr(i), Labels: web, HTTP: 10_000 + i}.Object()
		})},
		{"theft", []Object{
			thief("thief", VictimAddr(0).String(), year2999), thief("early-thief", FreshAddr, year2999),
		}},
		{"nobodys", objects(len(NobodysAddrs), func(i int) Object {
			return thief(fmt.Sprintf("odd-%d", i), NobodysAddrs[i], time.Time{})
		})},
	}
}

// year2999 is a start time in the far future.
var year2999 = time.Date(2999, 1, 1, 0, 0, 0, 0, time.UTC)

// Largest is the maximum size of an object in bytes of JSON, and MostObjects the number of objects that a
// tenant writes.
const (
	Largest     = 1_500_000
	MostObjects = 100
)

// Floods returns attacks with MostObjects objects each, of nearly the given number of bytes of JSON, which
// is at most Largest. Several sizes are tested, as an object over a budget may cost less than one just
// below it.
func Floods(bytes int) []Attack {
	var out []Attack
	for _, f := range []struct {
		name, role string
		ports      int // ports for each peer
		of         peer
	}{
		{"notin", "nobody", 0, notIn}, {"notin-own", "db", 0, notIn}, {"namespaces", "nobody", 0, ofNamespaces}, {"namespaces-own", "db", 0, ofNamespaces},
		{"pods", "db", 0, ofKey}, {"peers", "db", 0, ofValue}, {"blocks", "db", 0, blockIPv4}, {"ipv6", "db", 0, blockIPv6}, {"ports", "db", 4, ofValue},
	} {
		of := func(name string, n int) Object { return peers(name, f.role, n, f.ports*n, f.of) }
		size := func(n int) int { // of the JSON, which the API server limits
			text, err := json.Marshal(of(f.name, n).Make())
			utilruntime.Must(err)
			return len(text)
		}
		few, many := size(100), size(200)
		n := max(100+100*(bytes-few)/(many-few+2), 1)
		out = append(out, Attack{fmt.Sprintf("flood-%s of %d kB", f.name, bytes/1000), objects(MostObjects, func(i int) Object { return of(fmt.Sprintf("%s-%03d", f.name, i), n) })})
	}
	return append(out, Attack{fmt.Sprintf("flood-labels of %d kB", bytes/1000), objects(MostObjects, func(i int) Object { return labels(i, bytes-1000) })})
}

// Mixed returns an attack of MostObjects objects of Largest bytes, alternating between the kinds of Floods.
func Mixed() Attack {
	out, floods := Attack{Name: "mixed of 1500 kB"}, Floods(Largest)
	for i := range MostObjects {
		out.Objects = append(out.Objects, floods[i%len(floods)].Objects[i])
	}
	return out
}

func objects(n int, of func(i int) Object) []Object {
	out := make([]Object, n)
	for i := range out {
		out[i] = of(i)
	}
	return out
}

// peer is the JSON of one peer. %[1]s is the name of its policy, %[2]d its number i, %[3]d is 0, %[4]d to %[6]d are the
// last three bytes of an IPv4 address that is no neighbour of another i's, %[7]x and %[8]x the upper and lower half of i.
type peer string

const (
	// notIn selects nearly every pod of the cluster, ofNamespaces nearly every namespace.
	notIn        peer = `{"namespaceSelector": {}, "podSelector": {"matchExpressions": [{"key": "k", "operator": "NotIn", "values": ["%[1]s-%[2]d"]}]}}`
	ofNamespaces peer = `{"namespaceSelector": {"matchExpressions": [{"key": "k", "operator": "NotIn", "values": ["%[1]s-%[2]d"]}]}}`
	// ofValue selects another value of one label, and ofKey another label key; no pod has either.
	ofValue   peer = `{"podSelector": {"matchLabels": {"k": "%[1]s-%[2]d"}}}`
	ofKey     peer = `{"podSelector": {"matchLabels": {"%[1]s-%[2]d": "%040[3]d"}}}`
	blockIPv4 peer = `{"ipBlock": {"cidr": "172.%[4]d.%[5]d.%[6]d/32"}}`
	blockIPv6 peer = `{"ipBlock": {"cidr": "fd00:%[7]x:%[8]x::/48"}}`
)

// peers returns a policy on the tenant's pods of a role, with n peers and m ports that are not adjacent.
func peers(name, role string, n, m int, of peer) Object {
	return made(Tenant, name, func() string {
		from, ports := make([]string, n), make([]string, m)
		for i := range from {
			from[i] = fmt.Sprintf(string(of), name, i, 0, 16+i>>15, i>>7&255, 2*i&255, i>>16, i&0xffff)
		}
		for i := range ports {
			ports[i] = fmt.Sprintf(`{"port": %d}`, 1+2*i%65534)
		}
		return fmt.Sprintf(`{"podSelector": {"matchLabels": {"role": %q}}, "ingress": [{"from": [%s], "ports": [%s]}]}`,
			role, strings.Join(from, ","), strings.Join(ports, ","))
	})
}

// labels returns a pod with labels of the given total size, with as many short labels as possible.
func labels(i, bytes int) Object {
	name := fmt.Sprintf("labels-%d", i)
	return Object{Pods, Tenant, name, func() message {
		p := Pod{Namespace: Tenant, Name: name, Addr: tenantPodAddr(i), Labels: map[string]string{}}
		for k := range bytes / len(`"00-00000":"",`) {
			p.Labels[fmt.Sprintf("%02x-%05x", i, k)] = ""
		}
		return p.Object().Make()
	}}
}

// tenantPodAddr returns the address of the i-th additional remote pod of the tenant.
func tenantPodAddr(i int) string { return fmt.Sprintf("10.77.%d.%d", i/250, 1+i%250) }

// web are the labels of the victim's clients.
var web = map[string]string{"role": "web"}

// NobodysAddrs are addresses that no pod can have.
var NobodysAddrs = []string{"0.0.0.0", "0.1.2.3", "127.0.0.1", "169.254.1.1", "224.0.0.1", "255.255.255.255", NodeAddr}

// thief returns a pod of another node that claims an address.
func thief(name, address string, started time.Time) Object {
	return Pod{Namespace: Tenant, Name: name, Addr: address, Labels: web, Started: started}.Object()
}

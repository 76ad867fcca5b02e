package dataplane_test

import (
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/test/effort"
)

// bombs are policies of so many terms each of which stands for every pod of a cluster,
// every namespace, or every number of a named port.
var bombs = map[string]struct {
	terms int
	spec  string // %s: the terms
	term  string // %d: which
}{
	"40 negative peers": {40, `ingress: [{from: [%s]}]`,
		`{namespaceSelector: {}, podSelector: {matchExpressions: [{key: app, operator: NotIn, values: [no-%d]}]}}`},
	"150 negative peers": {150, `ingress: [{from: [%s]}]`,
		`{namespaceSelector: {}, podSelector: {matchExpressions: [{key: app, operator: NotIn, values: [no-%d]}]}}`},
	"1000 namespace selectors": {1000, `ingress: [{from: [%s]}]`,
		`{namespaceSelector: {matchExpressions: [{key: team, operator: NotIn, values: [no-%d]}]}}`},
	"1000 values": {1000, `ingress: [{from: [{namespaceSelector: {}, podSelector: {matchExpressions: [{key: app, operator: In, values: [%s]}]}}]}]`,
		`app-%d`},
	"a named port in 4 places": {4, `policyTypes: [Egress], egress: [%s]`,
		`{to: [{ipBlock: {cidr: 10.0.0.0/%d}}], ports: [{port: http}]}`},
	"1000 blocks": {1000, `ingress: [{from: [%s]}]`,
		`{ipBlock: {cidr: %d.0.0.0/8, except: [%[1]d.7.0.0/24]}}`},
}

// TestIdlePolicyCostsItsText: among 10,000 pods, a policy that selects none of this
// node has no set, and no more memory than a small multiple of its text, the decoded
// object included. After a pod of the node came under it and left again, the same.
func TestIdlePolicyCostsItsText(t *testing.T) {
	effort.Unraced(t)
	for name, bomb := range effort.Some(effort.Of(2, 100), bombs) {
		t.Run(name, func(t *testing.T) {
			terms := make([]string, bomb.terms)
			for i := range terms {
				terms[i] = fmt.Sprintf(bomb.term, i%200+1)
				if !strings.Contains(bomb.term, "cidr") {
					terms[i] = fmt.Sprintf(bomb.term, i)
				}
			}
			text := fmt.Sprintf(`{podSelector: {matchLabels: {app: bomb}}, `+bomb.spec+`}`, strings.Join(terms, ", "))
			w := newWorld(t)
			w.tx = cluster10k()
			w.do("apply")

			empty := heap()
			np := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "bomb"}}
			require.NoError(t, yaml.Unmarshal([]byte(text), &np.Spec))
			w.tx.SetPolicy(np)
			w.do("apply")
			idle := heap() - empty
			require.Empty(t, w.dp.Dump().Sets)

			w.do("pod x/local 10.9.0.1 app=bomb", "apply")
			active := heap() - empty
			w.do("delete pod x/local", "apply")
			again := heap() - empty
			require.Empty(t, w.dp.Dump().Sets)
			runtime.KeepAlive(w)

			t.Logf("%d B of text: %d B idle, %d B active, %d B idle again", len(text), idle, active, again)
			bound := 2*len(text) + 64<<10
			require.LessOrEqual(t, idle, bound)
			require.LessOrEqual(t, again, bound+active/4, "maps keep their buckets")
		})
	}
}

// cluster10k returns a transaction of 10,000 pods in 1,000 namespaces. Each serves http
// under a number of its own.
func cluster10k() *dataplane.Transaction {
	tx := dataplane.NewTransaction()
	for i := range 1000 {
		tx.SetNamespace(desired.Namespace{Name: fmt.Sprint("ns-", i), Labels: map[string]string{"team": fmt.Sprint(i)}})
	}
	for i := range 10000 {
		tx.SetPod(desired.Pod{
			Namespace: fmt.Sprint("ns-", i%1000), Name: fmt.Sprint("pod-", i), UID: types.UID(fmt.Sprint("uid-", i)),
			Addr:   netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}),
			Labels: map[string]string{"app": fmt.Sprint("app-", i%500)},
			Ports:  []desired.PodPort{{Name: "http", Protocol: policy.TCP, Number: uint16(1 + i)}},
		})
	}
	return tx
}

// heap returns how many bytes are live.
func heap() int {
	runtime.GC()
	runtime.GC() // the second ends what the first left to be swept
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

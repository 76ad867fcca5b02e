package recorder

import (
	"bytes"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/bounded"
	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
)

// full is a recording with something in every field.
func full(t testing.TB) Recording {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	d := state.Dump{Node: "n1", Time: at, Pods: []state.Pod{{Pod: "x/a"}}}
	web := pod("web", "10.0.0.1", "web")
	web.Created = at
	np := allow("p", "db", "web")
	set := SetValue{ID: "s", Name: "ns-x", Type: hns.IPSet, Values: []string{}, Count: 0}
	cut := SetValue{ID: "c", Count: 300, Digest: "d"}
	endpoint := EndpointValue{ID: "e", Addrs: []netip.Addr{web.Addr}, Count: 1, Version: "v",
		Policies: []hns.EndpointPolicy{{Type: "T", Settings: []byte(`{"a":"<&>","n":1.50}`)}}}
	gone := EndpointValue{ID: "f", Addrs: []netip.Addr{}, Count: 300, Version: "w"}
	return Recording{
		Format: Format, Node: "n1", Agent: "v1", Taken: at, Settings: NewSettings("azure", dataplane.Config{BaseACLs: acl.CalicoBase(), GracePeriod: time.Minute}),
		Start: &d, Forgotten: 6,
		Steps: []Step{
			{Number: 7, Kind: Observation, Began: at, Took: time.Second, Calls: []Call{
				{Op: hns.OpNetworkGet, Began: at, Count: 2, Cut: true, Network: &NetworkValue{ID: "n", Name: "azure", Sets: []SetValue{set, cut}}},
				{Op: hns.OpEndpointIDs, Began: at, Count: 2, DLLCalls: 2, IDs: []string{"e", "f"}},
				{Op: hns.OpEndpointList, Began: at, Count: 2, Cut: true, Endpoints: []EndpointValue{endpoint, gone}},
			}, Look: &dataplane.Look{Enumerate: true, Sets: true, Endpoints: []string{"e"}, All: true}, Again: 3, DLLCalls: 9},
			{Number: 8, Kind: Transaction, Began: at, Observed: 7, Report: &state.Report{Generation: 1}, Events: []Event{
				{Kind: KindPod, Operation: Set, Object: "x/web", Pod: &web},
				{Kind: KindNamespace, Operation: Set, Object: "x", Namespace: &desired.Namespace{Name: "x"}},
				{Kind: KindPolicy, Operation: Set, Object: "x/p", Policy: &Policy{Namespace: "x", Name: "p", Spec: np.Spec}},
				{Kind: KindPolicy, Operation: Delete, Object: "x/q"},
				{Kind: KindNode, Operation: Set, NodeAddrs: []netip.Addr{web.Addr}},
				{Kind: KindClusterPolicy, Operation: Set, Object: "c", ClusterPolicy: &ClusterPolicy{Name: "c", UID: "u", Spec: v1alpha2.ClusterNetworkPolicySpec{
					Tier: v1alpha2.AdminTier, Egress: []v1alpha2.ClusterNetworkPolicyEgressRule{{
						Action: v1alpha2.ClusterNetworkPolicyRuleActionDeny, To: []v1alpha2.ClusterNetworkPolicyEgressPeer{{Nodes: &metav1.LabelSelector{}}},
					}},
				}}},
				{Kind: KindClusterPolicy, Operation: Delete, Object: "d"},
				{Kind: KindClusterNode, Operation: Set, Object: "n2", ClusterNode: &state.Node{Name: "n2", Labels: map[string]string{"a": "b"}, Addrs: []netip.Addr{web.Addr}}},
				{Kind: KindClusterNode, Operation: Delete, Object: "n3"},
			}, Calls: []Call{
				{Op: hns.OpEndpointIDs, Began: at, Count: 2, IDs: []string{"e", "f"}},
				{Op: hns.OpEndpointIDs, Began: at, Count: 1, IDs: []string{"f"}},
				{Op: hns.OpEndpointIDs, Began: at, Count: 300, Cut: true, Digest: "d"},
				{Op: hns.OpNetworkGet, Began: at, Network: &NetworkValue{ID: "n", Name: "azure", Sets: []SetValue{set, cut}}},
				{Op: hns.OpEndpointGet, Endpoint: "e", Began: at, Endpoints: []EndpointValue{endpoint}},
				{Op: hns.OpSets(hns.Add), Began: at, Sets: []SetValue{set, set}},
				{Op: hns.OpACLAdd, Endpoint: "e", Began: at, ACLs: []hns.ACL{{ID: "a", Priority: 1}}},
				{Op: hns.OpACLUpdate, Endpoint: "e", Began: at, Policies: endpoint.Policies,
					Error: &Error{Class: "in use", Op: "o", Kind: "set", ID: "s", Code: 0x803b0012, Message: "m"}},
				{Op: hns.OpACLUpdate, Began: at, Running: true, Cut: true, Digest: "d"},
			}, Error: "broken", Running: true},
		},
	}
}

func encode(t testing.TB, rec Recording) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, Encode(&b, rec))
	return b.String()
}

func TestText(t *testing.T) {
	want := full(t)
	text := encode(t, want)
	got, err := Decode(strings.NewReader(text))
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{})))
	require.Equal(t, 3, strings.Count(text, `"same":true`), "what is as it was is written once")
	require.Equal(t, 1, strings.Count(text, `"sameIds":true`))
	require.Equal(t, 3, strings.Count(text, "\n"))
	require.Empty(t, cmp.Diff(full(t), want, cmpopts.EquateComparable(netip.Addr{})), "writing changes nothing")

	nothing := Recording{Format: Format}
	got, err = Decode(strings.NewReader(encode(t, nothing)))
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(nothing, got, cmpopts.EquateEmpty()))
}

func TestDecodeRefuses(t *testing.T) {
	text := encode(t, full(t))
	lines := strings.SplitAfter(text, "\n")
	const head, step = `{"format":1,"steps":1}`, `{"number":1,"kind":"transaction",`
	for name, tc := range map[string]struct{ text, want string }{
		"nothing":           {"", "EOF"},
		"text":              {"no recording", "invalid character"},
		"a dump":            {`{"NodeName":"n"}`, "unknown field"},
		"another format":    {`{"format":3}`, "its format is 3, this program reads 1 to 2"},
		"half a step":       {text[:len(text)-9], "step 2: unexpected EOF"},
		"a step less":       {lines[0] + lines[1], "it says that it has 2 steps, and has 1"},
		"another order":     {lines[0] + lines[2] + lines[1], "step 8: call 0: GUIDs were not read before"},
		"a step twice":      {lines[0] + lines[1] + lines[1], "step 7 comes behind step 7"},
		"something behind":  {text + "]", "after step 2"},
		"no kind":           {head + `{"number":1}`, `step 1: kind ""`},
		"a pod without pod": {head + step + `"events":[{"kind":"pod","operation":"set"}]}`, "event 0 is not whole"},
		"a deleted pod":     {head + step + `"events":[{"kind":"pod","operation":"delete","pod":{}}]}`, "event 0 is not whole"},
		"an unknown event":  {head + step + `"events":[{"kind":"node","operation":"delete"}]}`, "event 0 is not whole"},
		"another kind":      {head + step + `"events":[{"kind":"job","operation":"delete"}]}`, "event 0 is not whole"},
		"a look":            {head + step + `"look":{"all":true}}`, "a look that is no observation"},
		"GUIDs as they were": {head + step + `"calls":[{"sameIds":true}]}`,
			`call 0: GUIDs were not read before`},
		"an endpoint as it was": {head + step + `"calls":[{"endpoints":[{"id":"e","same":true}]}]}`,
			`call 0: endpoint "e" was not read before`},
	} {
		t.Run(name, func(t *testing.T) {
			rec, err := Decode(strings.NewReader(tc.text))
			require.ErrorIs(t, err, ErrNoRecording)
			require.ErrorContains(t, err, tc.want)
			require.Zero(t, rec)
		})
	}
	limits := bounded.OfAnAgent
	limits.Bytes = int64(len(text) - 1)
	_, err := decodeLimited(strings.NewReader(text), limits)
	require.ErrorIs(t, err, ErrNoRecording)
	require.ErrorIs(t, err, bounded.ErrTooMuch)
	limits.Bytes++
	_, err = decodeLimited(strings.NewReader(text), limits)
	require.NoError(t, err)
}

var errFull = errors.New("full")

type fullDisk struct{ left int }

func (d *fullDisk) Write(p []byte) (int, error) {
	if d.left -= len(p); d.left < 0 {
		return 0, errFull
	}
	return len(p), nil
}

func TestEncodeToAFullDisk(t *testing.T) {
	text := encode(t, full(t))
	head := strings.Index(text, "\n")
	for _, left := range []int{0, head + 2} {
		require.ErrorIs(t, Encode(&fullDisk{left}, full(t)), errFull)
	}
}

// FuzzDecode: whatever a file has is refused, or is a recording that is written
// and read the same way again.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(encode(f, full(f))))
	f.Add([]byte(`{"format":1,"steps":1} {"number":1,"kind":"observation","calls":[{"policies":[{}],"endpoints":[{"id":"e","policies":[{"Settings": [ 1 ]}]},{"id":"e","same":true}]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		rec, err := Decode(bytes.NewReader(data))
		if err != nil {
			require.ErrorIs(t, err, ErrNoRecording)
			return
		}
		var once bytes.Buffer
		if err := Encode(&once, rec); err != nil {
			t.Skip("a year that RFC 3339 cannot write") // the only value that does not encode
		}
		again, err := Decode(bytes.NewReader(once.Bytes()))
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(rec, again, cmpopts.EquateEmpty(), cmpopts.EquateComparable(netip.Addr{})))
		require.Equal(t, once.String(), encode(t, again))
	})
}

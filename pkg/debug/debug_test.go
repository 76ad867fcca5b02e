package debug

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/pkg/state"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func sample() state.Dump {
	return state.Dump{
		Node: "n1", Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Sets: []state.SetDump{
			{ID: "azure-npm-1", Name: "ns-x", Type: "IPSET", Members: []string{"10.0.0.1"}, Holders: []string{"rule e1"}, Pins: []string{"e1"}, InHNS: true},
			{ID: "azure-npm-2", Name: "podlabel-a:b", Type: "IPSET", Members: []string{}, Holders: []string{}, Pins: []string{}},
		},
		Pending:    []state.Pending{{Pod: "x/a", UID: "u", Join: []string{"ns-x"}, Leave: []string{}}},
		Endpoints:  []state.EndpointDump{{ID: "e1", Addrs: []string{"10.0.0.1"}, Pod: "x/a", Known: true}},
		Policies:   []state.PolicyDump{{Policy: "x/p", Ingress: true, Selected: []string{"x/a"}}},
		Pods:       []state.PodDump{{Pod: "x/a", UID: "u", Addr: "10.0.0.1", Labels: map[string]string{"a": "<b>"}, Local: true, Owner: true}, {Pod: "x/b"}},
		Namespaces: []state.NamespaceDump{{Name: "x", Labels: map[string]string{"team": "t"}}},
		NodeAddrs:  []string{"10.9.0.1"},
		Warnings:   []state.Warning{{Object: "x/p", Kind: "NetworkPolicy", Reason: state.ReasonHNSRejected, Message: "no"}},
		Reports:    []state.Report{{Generation: 1}, {Generation: 2}},
		ClusterPolicies: []state.ClusterPolicy{{
			Name: "c", Selected: []string{"x/a"}, Spec: &v1alpha2.ClusterNetworkPolicySpec{Tier: v1alpha2.AdminTier, Priority: 1},
		}},
		Nodes:       []state.NodeDump{{Name: "n1", Labels: map[string]string{"zone": "1"}, Addrs: []netip.Addr{netip.MustParseAddr("10.9.0.1")}}},
		Due:         state.DueDump{New: []state.Unread{{ID: "e2"}}},
		Spellings:   []state.SpellingSeen{{Kind: "set", Object: "ns-x", Sent: "a", Shown: "b"}},
		OthersCut:   true,
		Transaction: &state.Progress{Doing: "Endpoint/Get", InHNS: true},
		LookAge:     time.Second,
	}
}

func get(t *testing.T, h http.Handler, method, path string) (int, string) {
	t.Helper()
	rec := answer(t.Context(), h, method, path, here, "localhost")
	return rec.Code, rec.Body.String()
}

func fine() error { return nil }

func TestManager(t *testing.T) {
	want := sample()
	h := Handler(Config{Dump: func() state.Dump { return want }, Healthy: fine, Ready: fine})
	code, body := get(t, h, http.MethodGet, ManagerPath)
	require.Equal(t, http.StatusOK, code)

	var predecessor struct {
		NodeName string
		NsMap    map[string]map[string]map[string]string
		PodMap   map[string]struct {
			Name, Namespace, PodIP string
			Labels                 map[string]string
		}
		SetMap map[string]string
	}
	require.NoError(t, json.Unmarshal([]byte(body), &predecessor))
	require.Equal(t, "n1", predecessor.NodeName)
	require.Equal(t, map[string]string{"team": "t"}, predecessor.NsMap["x"]["LabelsMap"])
	require.Equal(t, map[string]string{"azure-npm-1": "ns-x", "azure-npm-2": "podlabel-a:b"}, predecessor.SetMap)
	require.Len(t, predecessor.PodMap, 2)
	require.Equal(t, "a", predecessor.PodMap["x/a"].Name)
	require.Equal(t, "x", predecessor.PodMap["x/a"].Namespace)
	require.Equal(t, "10.0.0.1", predecessor.PodMap["x/a"].PodIP)
	require.Equal(t, map[string]string{"a": "<b>"}, predecessor.PodMap["x/a"].Labels)

	for i := range reflect.TypeFor[state.Dump]().NumField() {
		require.False(t, reflect.ValueOf(want).Field(i).IsZero(), "the sample has no %s", reflect.TypeFor[state.Dump]().Field(i).Name)
	}
	var got state.Dump
	require.NoError(t, json.Unmarshal([]byte(body), &got))
	require.Empty(t, cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{})), "all of the dump is there")
}

func TestManagerOfNothing(t *testing.T) {
	h := Handler(Config{Dump: func() state.Dump { return state.Dump{} }, Healthy: fine, Ready: fine})
	_, body := get(t, h, http.MethodGet, ManagerPath)
	require.JSONEq(t, `{"NodeName":"","node":"","NsMap":{},"PodMap":{},"SetMap":{},"sets":[],"pending":[],"endpoints":[],"policies":[],
		"pods":[],"namespaces":[],"nodeAddresses":[],"warnings":[],"reports":[],"due":{}}`, body)
}

func TestManagerEndsWithTheClient(t *testing.T) {
	require.ErrorIs(t, writeManager(gone{}, sample()), errGone)
}

var errGone = errors.New("gone")

type gone struct{}

func (gone) Write([]byte) (int, error) { return 0, errGone }

func TestChecks(t *testing.T) {
	var healthy, ready error
	h := Handler(Config{
		Dump:    func() state.Dump { panic("a check needs no dump") },
		Healthy: func() error { return healthy }, Ready: func() error { return ready },
	})
	for _, tc := range []struct {
		name           string
		healthy, ready error
		path           string
		code           int
		body           string
	}{
		{"healthy", nil, errors.New("not yet"), "/healthz", 200, "ok\n"},
		{"not healthy", errors.New("the worker is not running"), nil, "/healthz", 503, "the worker is not running\n"},
		{"not healthy because of a name", errors.New("set \x1b[2J\u202e\nok"), nil, "/healthz", 503, "set \uFFFD[2J\uFFFD\uFFFDok\n"},
		{"ready", nil, nil, "/readyz", 200, "ok\n"},
		{"not ready", nil, errors.New("not yet"), "/readyz", 503, "not yet\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			healthy, ready = tc.healthy, tc.ready
			code, body := get(t, h, http.MethodGet, tc.path)
			require.Equal(t, tc.code, code)
			require.Equal(t, tc.body, body)
		})
	}
}

func TestOnlyGET(t *testing.T) {
	for _, path := range slices.Concat(guarded, open) {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch} {
			code, _ := get(t, full(), method, path)
			require.Equal(t, http.StatusMethodNotAllowed, code, "%s %s", method, path)
		}
	}
}

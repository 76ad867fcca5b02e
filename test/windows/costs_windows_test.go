package windows

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/Microsoft/hcsshim/hcn"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/windows"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/hcsadapter"
	"github.com/winnpm/winnpm/test/hnstest"
	"github.com/winnpm/winnpm/test/windows/hnsd"
)

const (
	localPods  = 110
	bigMembers = 20_000
	rounds     = 4 // of each operation
)

// operation is one of hns.Client, done by hcsshim's hcn and by the adapter, and
// the calls of HNS that it takes with each.
type operation struct {
	name               string
	hcn, ours          func(round int) error
	hcnCalls, ourCalls int
	refused            bool
}

// TestCostOfCalls prints what hcsshim's hcn costs at the boundary of the DLLs,
// and what the adapter costs: docs/adr/0009-thin-binding.md has the table. The
// calls are asserted, and the handles that refused writes leave open.
func TestCostOfCalls(t *testing.T) {
	c := newOwn(t)
	adapter, err := hcsadapter.New(hcsadapter.Options{Network: networkName})
	require.NoError(t, err)
	t.Cleanup(adapter.Close)
	endpoints := make([]string, localPods)
	for i := range endpoints {
		id, err := c.CreateEndpoint(t, hnstest.Endpoint{Addrs: []netip.Addr{nth(4 + i)}})
		require.NoError(t, err)
		endpoints[i] = id
	}
	sets := []hns.SetPolicy{setOf(0, bigMembers)}
	require.NoError(t, adapter.ModifySets(t.Context(), hns.Add, sets))
	t.Logf("%-5s %-28s %-8s %6s %10s %10s %9s %9s %5s", "sets", "operation", "through", "calls", "bytes in", "bytes out", "CPU", "allocated", "open")
	for _, n := range []int{50, 500, 2000} {
		var more []hns.SetPolicy
		for len(sets)+len(more) < n {
			more = append(more, setOf(len(sets)+len(more), 10))
		}
		require.NoError(t, adapter.ModifySets(t.Context(), hns.Add, more))
		sets = append(sets, more...)
		readAlike(t, adapter)
		_, err := adapter.EndpointIDs(t.Context()) // the first one after a read tries both filters
		require.NoError(t, err)
		for _, op := range operations(t, c, adapter, endpoints, sets) {
			was := measure(t, op.hcn, op.refused)
			is := measure(t, op.ours, op.refused)
			was.log(t, n, op.name, "hcn")
			is.log(t, n, op.name, "adapter")
			require.Equal(t, []int{op.hcnCalls, op.ourCalls}, []int{was.calls, is.calls}, "%s: hcn %v, adapter %v", op.name, was.Calls, is.Calls)
			left := 0
			switch {
			case op.refused:
				left = rounds // hcn returns without closing
			case op.ourCalls == 3 && is.Out == 0: // a write
				const reread = `{"SchemaVersion":{"Major":2,"Minor":0}}`
				require.Equal(t, was.In-rounds*2*len(reread), is.In, "%s: the same text is sent", op.name)
			}
			require.Equal(t, []int{left, 0}, []int{was.Open, is.Open}, op.name)
		}
	}
}

// readAlike compares what the adapter reads with what hcn reads.
func readAlike(t *testing.T, a hcsadapter.Client) {
	t.Helper()
	theirs, err := hcn.GetNetworkByName(networkName)
	require.NoError(t, err)
	ours, err := a.Network(t.Context())
	require.NoError(t, err)
	values := map[string]string{}
	for _, s := range ours.Sets {
		values[s.ID] = strings.Join(s.Values, ",")
	}
	require.Equal(t, setValues(t, theirs), values)
	require.Equal(t, []string{theirs.Id, theirs.Name}, []string{ours.ID, ours.Name})

	ids, err := a.EndpointIDs(t.Context())
	require.NoError(t, err)
	require.Len(t, ids, localPods)
	for _, id := range ids {
		e, err := a.GetEndpoint(t.Context(), id)
		require.NoError(t, err)
		theirs, err := hcn.GetEndpointByID(e.ID)
		require.NoError(t, err)
		require.Equal(t, theirs.Id, e.ID)
		require.Equal(t, theirs.IpConfigurations, []hcn.IpConfig{ipConfig(e.Addrs[0])})
		require.Len(t, e.Policies, len(theirs.Policies))
		for i, p := range theirs.Policies {
			require.Equal(t, string(p.Type), e.Policies[i].Type)
			require.JSONEq(t, string(p.Settings), string(e.Policies[i].Settings))
		}
	}
}

func nth(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 90, byte(i / 250), byte(4 + i%250)}) }

func setOf(i, members int) hns.SetPolicy {
	s := hns.SetPolicy{ID: fmt.Sprintf("azure-npm-%d", 1_000_000+i), Name: fmt.Sprintf("podlabel-app:%d", i), Type: hns.IPSet}
	for m := range members {
		s.Values = append(s.Values, fmt.Sprintf("10.%d.%d.%d", 100+m/65536, m/256%256, m%256))
	}
	return s
}

func operations(t *testing.T, c *cni, a hcsadapter.Client, endpoints []string, sets []hns.SetPolicy) []operation {
	rule := hns.ACL{ID: "azure-acl-x.web", Action: hns.Allow, Direction: hns.In, LocalAddresses: sets[1].ID, RuleType: hns.Switch, Priority: 222, LocalPorts: "80", Protocols: "6"}
	noSet := rule
	noSet.LocalAddresses = "azure-npm-none"
	update := func(set hns.SetPolicy) func(int) error {
		return func(int) error {
			return c.network.ModifyNetworkSettings(&hcn.ModifyNetworkSettingRequest{
				ResourceType: hcn.NetworkResourceTypePolicy, RequestType: hcn.RequestTypeUpdate,
				Settings: marshal(t, hcn.PolicyNetworkRequest{Policies: []hcn.NetworkPolicy{{Type: hcn.SetPolicy, Settings: marshal(t, hcn.SetPolicySetting{
					Id: set.ID, Name: set.Name, Type: hcn.SetPolicyTypeIpSet, Values: strings.Join(set.Values, ","),
				})}}}),
			})
		}
	}
	write := func(verb hcn.RequestType, rule hns.ACL) func(int) error {
		return func(round int) error {
			p := hns.NewACLPolicy(rule)
			return hcn.ModifyEndpointSettings(endpoints[round], &hcn.ModifyEndpointSettingRequest{
				ResourceType: hcn.EndpointResourceTypePolicy, RequestType: verb,
				Settings: marshal(t, hcn.PolicyEndpointRequest{Policies: []hcn.EndpointPolicy{{Type: hcn.ACL, Settings: p.Settings}}}),
			})
		}
	}
	listing := 2 + 3*localPods
	list := func(filters ...string) error {
		for _, filter := range filters {
			if _, err := hcn.ListEndpointsQuery(hcn.HostComputeQuery{SchemaVersion: hcn.V2SchemaVersion(), Filter: filter}); err != nil {
				return err
			}
		}
		return nil
	}
	read := func(round int) error {
		_, err := hcn.GetEndpointByID(endpoints[round])
		return err
	}
	return []operation{
		{"Network", func(int) error {
			_, err := hcn.GetNetworkByName(networkName)
			return err
		}, func(int) error {
			_, err := a.Network(t.Context())
			return err
		}, 4, 4, false},
		// readAlike has shown that hnsd heeds a filter for one network.
		{"EndpointIDs, 110", func(int) error {
			return list(`{"State":2}`, `{"State":3}`)
		}, func(int) error {
			_, err := a.EndpointIDs(t.Context())
			return err
		}, listing, 2, false},
		{"GetEndpoint", read, func(round int) error {
			_, err := a.GetEndpoint(t.Context(), endpoints[round])
			return err
		}, 4, 3, false},
		{"ModifySets, 10 members", update(sets[1]), func(int) error {
			return a.ModifySets(t.Context(), hns.Update, sets[1:2])
		}, 4, 3, false},
		{"ModifySets, 20,000 members", update(sets[0]), func(int) error {
			return a.ModifySets(t.Context(), hns.Update, sets[:1])
		}, 4, 3, false},
		{"ReplacePolicies", write(hcn.RequestTypeUpdate, rule), func(round int) error {
			return a.ReplacePolicies(t.Context(), endpoints[round], []hns.EndpointPolicy{hns.NewACLPolicy(rule)})
		}, 4, 3, false},
		{"AddACLs", write(hcn.RequestTypeAdd, rule), func(round int) error {
			return a.AddACLs(t.Context(), endpoints[round], []hns.ACL{rule})
		}, 4, 3, false},
		{"read, AddACLs, read, held", func(round int) error {
			return errors.Join(read(round), write(hcn.RequestTypeAdd, rule)(round), read(round))
		}, func(round int) error {
			defer a.Hold(t.Context(), endpoints[round])()
			_, before := a.GetEndpoint(t.Context(), endpoints[round])
			added := a.AddACLs(t.Context(), endpoints[round], []hns.ACL{rule})
			_, after := a.GetEndpoint(t.Context(), endpoints[round])
			return errors.Join(before, added, after)
		}, 12, 5, false},
		// The adapter asks which of the two is missing, the endpoint or the set.
		{"AddACLs, refused", write(hcn.RequestTypeAdd, noSet), func(round int) error {
			return a.AddACLs(t.Context(), endpoints[round], []hns.ACL{noSet})
		}, 2, 3 + 3 + 4, true},
	}
}

func marshal(t *testing.T, v any) json.RawMessage {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return text
}

// cost is of one round, but for what hnsd counts.
type cost struct {
	hnsd.Spent
	calls     int
	cpu       time.Duration
	allocated uint64 // bytes
}

func (c cost) log(t *testing.T, sets int, name, through string) {
	t.Logf("%-5d %-28s %-8s %6d %10d %10d %9v %9d %5d", sets, name, through, c.calls, c.In/rounds, c.Out/rounds, c.cpu, c.allocated, c.Open)
}

func measure(t *testing.T, do func(round int) error, refused bool) cost {
	t.Helper()
	spent(t)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := processTime(t)
	for round := range rounds {
		err := do(round)
		require.Equal(t, refused, err != nil, "%v", err)
	}
	out := cost{cpu: (processTime(t) - start) / rounds}
	runtime.ReadMemStats(&after)
	out.allocated = (after.TotalAlloc - before.TotalAlloc) / rounds
	out.Spent = spent(t)
	for _, n := range out.Calls {
		out.calls += n
	}
	require.Zero(t, out.calls%rounds, out.Calls)
	out.calls /= rounds
	open := out.Open
	out.Open -= leaked
	leaked = open
	return out
}

// leaked is how many handles were open at the last look.
var leaked int

// processTime is what this process has used of the processors.
func processTime(t *testing.T) time.Duration {
	t.Helper()
	var created, ended, kernel, user windows.Filetime
	require.NoError(t, windows.GetProcessTimes(windows.CurrentProcess(), &created, &ended, &kernel, &user))
	ticks := func(f windows.Filetime) int64 { return int64(f.HighDateTime)<<32 | int64(f.LowDateTime) }
	return time.Duration(ticks(kernel)+ticks(user)) * 100
}

// spent asks hnsd what this process has cost since it was asked last.
func spent(t *testing.T) (s hnsd.Spent) {
	t.Helper()
	texts := make([]*uint16, 3)
	for i, text := range []string{"GET", hnsd.SpentPath, ""} {
		var err error
		texts[i], err = windows.UTF16PtrFromString(text)
		require.NoError(t, err)
	}
	var out *uint16
	hr, _, _ := windows.NewLazySystemDLL("vmcompute.dll").NewProc("HNSCall").Call(uintptr(unsafe.Pointer(texts[0])),
		uintptr(unsafe.Pointer(texts[1])), uintptr(unsafe.Pointer(texts[2])), uintptr(unsafe.Pointer(&out)))
	require.Zero(t, hr)
	defer windows.CoTaskMemFree(unsafe.Pointer(out))
	require.NoError(t, json.Unmarshal([]byte(windows.UTF16PtrToString(out)), &s))
	return s
}

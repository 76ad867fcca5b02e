package main

import (
	"bytes"
	"context"
	"net/netip"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"github.com/winnpm/winnpm/pkg/cli"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// inUse is a node with one pod that is closed by a set of ours.
func inUse(t *testing.T) *fakeService {
	t.Helper()
	fake := newFake()
	require.NoError(t, fake.ModifySets(t.Context(), hns.Add, []hns.SetPolicy{{ID: "azure-npm-1", Name: "ns-x", Type: hns.IPSet}}))
	require.NoError(t, fake.ModifySets(t.Context(), hns.Add, []hns.SetPolicy{{ID: "azure-npm-2", Name: "nslabel-a", Type: hns.NestedIPSet, Values: []string{"azure-npm-1"}}}))
	require.NoError(t, fake.CreateEndpoint(hnssim.SimEndpoint{ID: "ep", Addrs: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}))
	require.NoError(t, fake.AddACLs(t.Context(), "ep", []hns.ACL{{
		ID: "azure-acl-x.p", Action: hns.Block, Direction: hns.In, LocalAddresses: "azure-npm-2", RuleType: hns.Switch, Priority: hns.PriorityBlock,
	}}))
	fake.ResetCalls()
	return fake
}

func runUninstall(t *testing.T, fake *fakeService, args ...string) (stdout string, err error) {
	t.Helper()
	var out bytes.Buffer
	cmd := newUninstall(cli.Streams{Out: &out}, func(string) string { return "" }, fake.host())
	cmd.SetArgs(append([]string{}, args...)) // see TestStartErrors
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err = cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestUninstall(t *testing.T) {
	t.Parallel()
	fake := inUse(t)
	const found = "endpoint ep [10.0.0.1]: our rules: 1\nin all: our rules: 1, endpoints with some: 1, our sets: 2, nested ones of them: 1\n"
	out, err := runUninstall(t, fake)
	require.NoError(t, err)
	require.Equal(t, found+"nothing was written: --yes takes this away, and every pod of this node is open then\n", out)
	require.Zero(t, fake.Counts()[hns.OpACLUpdate]+fake.Counts()[hns.OpSets(hns.Remove)])

	out, err = runUninstall(t, fake, "--yes")
	require.NoError(t, err)
	require.Equal(t, "nothing of WinNPM or Azure NPM is left in HNS; every pod of this node is open\n", out)
	require.True(t, fake.closed)
	require.Empty(t, fake.holders, "the lock is free again")

	out, err = runUninstall(t, fake)
	require.NoError(t, err)
	require.Equal(t, "nothing of WinNPM or Azure NPM is in HNS\n", out)
}

// TestUninstallBesideAnAgent: an agent that works would put everything back.
func TestUninstallBesideAnAgent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake := inUse(t)
		fake.holders <- struct{}{}
		_, err := runUninstall(t, fake, "--yes")
		require.EqualError(t, err, "an agent programs this node: delete its DaemonSet first")
		require.Zero(t, fake.Counts()[hns.OpACLUpdate])
	})
}

// TestUninstallLeavesSome: what HNS does not give is said, and the exit code tells.
func TestUninstallLeavesSome(t *testing.T) {
	t.Parallel()
	fake := inUse(t)
	fake.Inject(hnsfault.Fault{Op: hns.OpACLUpdate, Times: -1, Mode: hnsfault.Refuse, Code: 0x80004005})
	_, err := runUninstall(t, fake, "--yes")
	var ended cli.Exit
	require.ErrorAs(t, err, &ended)
	require.Equal(t, 1, ended.Code)
	require.ErrorContains(t, err, "something is left, run it again: our rules: 1, our sets: 2: endpoint ep: not done: hns ACL/Update: ")
	require.ErrorContains(t, err, "endpoints are left whose rules may name them")
}

// TestUninstallUnread: an endpoint that cannot be read is shown, as it may have rules of ours.
func TestUninstallUnread(t *testing.T) {
	t.Parallel()
	fake := inUse(t)
	fake.Inject(hnsfault.Fault{Op: hns.OpEndpointGet, Times: -1, Mode: hnsfault.Refuse, Code: 0x803B0017})
	out, err := runUninstall(t, fake)
	require.NoError(t, err)
	require.Contains(t, out, "endpoint ep cannot be read: hns Endpoint/Get: ")
	require.Contains(t, out, "in all: our rules: 0, endpoints with some: 0, our sets: 2, nested ones of them: 1\n")
}

func TestUninstallWithoutNetwork(t *testing.T) {
	t.Parallel()
	fake := inUse(t)
	fake.gone = hns.ErrNotFound
	_, err := runUninstall(t, fake)
	require.EqualError(t, err, "there is no HNS network of the pods: name the network of this node in WindowsNetworkName: reading the sets: not found")
}

// TestUninstallStays: a DaemonSet's program must not end.
func TestUninstallStays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake := inUse(t)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- uninstallFlags{yes: true, stay: true, hnsTimeout: time.Minute}.run(ctx, cli.Streams{Out: &bytes.Buffer{}},
				func(string) string { return "" }, fake.host())
		}()
		synctest.Wait()
		require.Empty(t, done)
		stop()
		require.NoError(t, <-done)
	})
}

// TestUninstallDeployed: where the agent runs, the DaemonSet that takes its rules away
// does, with its configuration, its rights on the node, and none in the cluster.
func TestUninstallDeployed(t *testing.T) {
	t.Parallel()
	read := func(path string) (set appsv1.DaemonSet) {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, yaml.UnmarshalStrict(text, &set))
		return set
	}
	agent, away := read("../../deploy/base/daemonset.yaml"), read("../../deploy/uninstall/daemonset.yaml")
	require.NotEqual(t, agent.Spec.Selector, away.Spec.Selector)
	a, b := agent.Spec.Template.Spec, away.Spec.Template.Spec
	require.Equal(t, []any{a.OS, a.NodeSelector, a.Tolerations, a.HostNetwork, a.SecurityContext, a.Volumes},
		[]any{b.OS, b.NodeSelector, b.Tolerations, b.HostNetwork, b.SecurityContext, b.Volumes})
	require.Empty(t, b.ServiceAccountName)
	require.False(t, *b.AutomountServiceAccountToken)
	does, stays := b.InitContainers[0], b.Containers[0]
	require.Equal(t, []string{"uninstall", "--yes"}, does.Args)
	require.Equal(t, []string{"uninstall", "--stay"}, stays.Args)
	for _, c := range append(b.InitContainers, b.Containers...) {
		require.Equal(t, []any{a.Containers[0].Image, a.Containers[0].Command, a.Containers[0].VolumeMounts}, []any{c.Image, c.Command, c.VolumeMounts})
		require.Subset(t, a.Containers[0].Env, c.Env)
		require.Equal(t, configEnv, c.Env[0].Name)
	}
}

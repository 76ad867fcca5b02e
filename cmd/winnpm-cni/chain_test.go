//go:build !windows

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"
	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/node"
	"github.com/winnpm/winnpm/test/effort"
)

// TestMain is also the programs that libcni starts: this one, and one before it in the
// list.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "winnpm-cni":
		main()
	case "first":
		first()
	default:
		for name, value := range map[string]string{
			"CNI_NETNS_OVERRIDE": "1",                 // there is no namespace
			"GORACE":             "atexit_sleep_ms=0", // of which each plugin would sleep a second
		} {
			if err := os.Setenv(name, value); err != nil {
				panic(err)
			}
		}
		os.Exit(m.Run())
	}
}

// versions are those of the CNI specification that the plugin supports.
var versions = []string{"0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"}

// first is a plugin that makes an endpoint, or so it says.
func first() {
	add := func(args *skel.CmdArgs) error {
		var conf types.PluginConf
		if err := json.Unmarshal(args.StdinData, &conf); err != nil {
			return err
		}
		return types.PrintResult(firstResult(), conf.CNIVersion)
	}
	none := func(*skel.CmdArgs) error { return nil }
	skel.PluginMainFuncs(skel.CNIFuncs{Add: add, Del: none, Check: none, GC: none, Status: none}, version.All, "")
}

func firstResult() *types100.Result {
	at := 0
	_, everywhere, _ := net.ParseCIDR("0.0.0.0/0")
	return &types100.Result{
		CNIVersion: types100.ImplementedSpecVersion,
		Interfaces: []*types100.Interface{{Name: "0c4f_azure", Mac: "00:15:5d:00:00:07"}},
		IPs: []*types100.IPConfig{
			{Interface: &at, Address: net.IPNet{IP: net.ParseIP("10.1.0.7").To4(), Mask: net.CIDRMask(16, 32)}, Gateway: net.ParseIP("10.1.0.1")},
			{Interface: &at, Address: net.IPNet{IP: net.ParseIP("fd00::7"), Mask: net.CIDRMask(64, 128)}},
		},
		Routes: []*types.Route{{Dst: *everywhere, GW: net.ParseIP("10.1.0.1")}},
		DNS:    types.DNS{Nameservers: []string{"10.0.0.10"}, Search: []string{"shop.svc.cluster.local"}},
	}
}

// chain is a list of both plugins, as a runtime starts them.
type chain struct {
	cni     *libcni.CNIConfig
	list    *libcni.NetworkConfigList
	runtime *libcni.RuntimeConf
}

func newChain(t *testing.T, version, entry string) chain {
	t.Helper()
	bin := t.TempDir()
	self, err := os.Executable()
	require.NoError(t, err)
	for _, name := range []string{"first", "winnpm-cni"} {
		require.NoError(t, os.Symlink(self, filepath.Join(bin, name)))
	}
	list, err := libcni.NetworkConfFromBytes(fmt.Appendf(nil, `{"cniVersion":%q,"name":"n","plugins":[{"type":"first"},{"type":"winnpm-cni"%s}]}`, version, entry))
	require.NoError(t, err)
	return chain{
		cni:  libcni.NewCNIConfigWithCacheDir([]string{bin}, t.TempDir(), nil),
		list: list,
		runtime: &libcni.RuntimeConf{ContainerID: "0c4f", NetNS: "{6B0D}", IfName: "eth0", Args: [][2]string{
			{"IgnoreUnknown", "1"}, {"K8S_POD_NAMESPACE", "shop"}, {"K8S_POD_NAME", "api-0"}, {"K8S_POD_INFRA_CONTAINER_ID", "0c4f"}, {"K8S_POD_UID", "8d3a"},
		}},
	}
}

// socket is a place for one. Its path must be short.
func socket(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "gate")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // of the temporary files
	return filepath.Join(dir, "s")
}

// A runtime gets through the whole list with every version and mode, and sees what the
// first plugin said.
func TestChain(t *testing.T) {
	for i, version := range versions {
		for _, mode := range []string{node.ModeStrict, node.ModeWait, node.ModeOff} {
			if mode != node.ModeStrict && i+1 < len(versions) && !effort.Deep() {
				continue
			}
			t.Run(version+" "+mode, func(t *testing.T) {
				t.Parallel()
				path := socket(t)
				l, err := node.ListenPipe(path)
				require.NoError(t, err)
				claims := make(chan node.Claim, 9)
				serve(t, l, func(_ context.Context, c node.Claim) error { claims <- c; return nil })
				c := newChain(t, version, fmt.Sprintf(`,"mode":%q,"pipe":%q`, mode, path))

				got, err := c.cni.AddNetworkList(t.Context(), c.list, c.runtime)
				require.NoError(t, err)
				want, err := firstResult().GetAsVersion(version)
				require.NoError(t, err)
				require.JSONEq(t, text(t, want), text(t, got))
				if mode == node.ModeOff {
					require.Empty(t, claims)
				} else {
					require.Len(t, claims, 1)
					claim := <-claims
					require.Positive(t, claim.Wait)
					claim.Wait = 0
					require.Equal(t, node.Claim{
						UID: "8d3a", Namespace: "shop", Name: "api-0", ContainerID: "0c4f", Netns: "{6B0D}",
						Addresses: []netip.Addr{netip.MustParseAddr("10.1.0.7"), netip.MustParseAddr("fd00::7")}, Endpoint: "0c4f_azure",
						Strict: mode == node.ModeStrict,
					}, claim)
				}

				if version >= "0.4.0" {
					require.NoError(t, c.cni.CheckNetworkList(t.Context(), c.list, c.runtime))
				}
				require.NoError(t, c.cni.DelNetworkList(t.Context(), c.list, c.runtime))
				require.NoError(t, c.cni.GetStatusNetworkList(t.Context(), c.list))
				require.NoError(t, c.cni.GCNetworkList(t.Context(), c.list, &libcni.GCArgs{}))
				require.Empty(t, claims)
			})
		}
	}
}

func text(t *testing.T, r types.Result) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, r.PrintTo(&b))
	return b.String()
}

// Without an agent a runtime is told to try again in strict mode, and can end the pod
// in each, whatever else is wrong.
func TestChainWithoutAgent(t *testing.T) {
	for _, version := range versions[effort.Of(len(versions)-2, 0):] {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			path := socket(t)
			c := newChain(t, version, fmt.Sprintf(`,"mode":"strict","waitSeconds":1,"pipe":%q`, path))
			_, err := c.cni.AddNetworkList(t.Context(), c.list, c.runtime)
			require.EqualValues(t, types.ErrTryAgainLater, code(t, err))
			require.ErrorContains(t, err, "winnpm-cni: not started, the kubelet tries again: pod shop/api-0: no agent answers: dial unix "+path)
			require.NoError(t, c.cni.DelNetworkList(t.Context(), c.list, c.runtime))
			if version == "1.1.0" {
				require.EqualValues(t, types.ErrPluginNotAvailable, code(t, c.cni.GetStatusNetworkList(t.Context(), c.list)))
			}

			wrong := newChain(t, version, `,"mode":"open"`)
			_, err = wrong.cni.AddNetworkList(t.Context(), wrong.list, wrong.runtime)
			require.EqualValues(t, types.ErrInvalidNetworkConfig, code(t, err))
			require.NoError(t, wrong.cni.DelNetworkList(t.Context(), wrong.list, wrong.runtime))
		})
	}
}

// Older versions have no prevResult that says enough.
func TestVersions(t *testing.T) {
	c := newChain(t, "1.1.0", "")
	info, err := c.cni.GetVersionInfo(t.Context(), "winnpm-cni")
	require.NoError(t, err)
	require.Equal(t, versions, info.SupportedVersions())
}

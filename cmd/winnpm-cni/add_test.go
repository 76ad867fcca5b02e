package main

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/node"
	"github.com/winnpm/winnpm/test/switchboard"
)

// What the modes promise: who starts, when, and what is said of it.
func TestModes(t *testing.T) {
	const noAgent, see = "no agent answers: there is no pipe", "see that the agent of WinNPM runs on this node and listens on "
	for name, tc := range map[string]struct {
		entry   string
		agent   agent // nil: none
		seconds int   // until it returns
		code    uint  // 0: the pod starts
		says    string
	}{
		"strict, ready":    {`"mode":"strict",`, good, 0, 0, ""},
		"strict, late":     {`"mode":"strict",`, late, 9, 11, "winnpm-cni: not started, the kubelet tries again: pod shop/api-0: the agent says no: late: its policies were not in place after 9.5s: the pod waits no longer; see the log of the agent of WinNPM on this node"},
		"strict, fails":    {`"mode":"strict",`, fails, 0, 11, "winnpm-cni: not started, the kubelet tries again: pod shop/api-0: the agent says no: failed: broken; see the log of the agent of WinNPM on this node"},
		"strict, no agent": {`"mode":"strict","waitSeconds":3,`, nil, 3, 11, "winnpm-cni: not started, the kubelet tries again: pod shop/api-0: " + noAgent + "; " + see + node.DefaultPipe},
		"wait, ready":      {`"mode":"wait",`, good, 0, 0, ""},
		"wait, late":       {``, late, 9, 0, "winnpm-cni: started without its policies: pod shop/api-0: the agent says no: late: its policies were not in place after 9.5s: the pod waits no longer; see the log of the agent of WinNPM on this node\n"},
		"wait, fails":      {``, fails, 0, 0, "winnpm-cni: started without its policies: pod shop/api-0: the agent says no: failed: broken; see the log of the agent of WinNPM on this node\n"},
		"wait, no agent":   {`"pipe":"elsewhere",`, nil, 10, 0, "winnpm-cni: started without its policies: pod shop/api-0: " + noAgent + "; " + see + "elsewhere\n"},
		"off":              {`"mode":"off",`, fails, 0, 0, ""},
		"off, no agent":    {`"mode":"off",`, nil, 0, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dial := nobody
				if tc.agent != nil {
					b := switchboard.New()
					serve(t, b, tc.agent)
					dial = to(b)
				}
				start := time.Now()
				stdout, stderr, err := run(t, dial, plugin.add, argsOf(tc.entry))
				require.Equal(t, tc.seconds, seconds(time.Since(start)))
				if tc.code != 0 {
					require.Equal(t, tc.code, code(t, err))
					require.EqualError(t, err, tc.says)
					require.Empty(t, stdout)
					return
				}
				require.NoError(t, err)
				require.Equal(t, resultOfTest, stdout, "byte for byte")
				require.Equal(t, tc.says, stderr)
			})
		})
	}
}

func fails(context.Context, node.Claim) error { return errors.New("broken") }

// never fails a test in which somebody dials.
func never(t *testing.T) func(context.Context, string) (net.Conn, error) {
	return func(context.Context, string) (net.Conn, error) {
		t.Error("dialed")
		return nil, errors.ErrUnsupported
	}
}

// The agent gets all that the runtime says of the pod.
func TestClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := switchboard.New()
		var got node.Claim
		serve(t, b, func(_ context.Context, c node.Claim) error { got = c; return nil })
		_, _, err := run(t, to(b), plugin.add, argsOf(`"mode":"strict","waitSeconds":4,`))
		require.NoError(t, err)
		require.Equal(t, node.Claim{
			UID: "8d3a", Namespace: "shop", Name: "api-0", ContainerID: "0c4f", Netns: "{6B0D}",
			Addresses: []netip.Addr{netip.MustParseAddr("10.1.0.7"), netip.MustParseAddr("fd00::7")}, Endpoint: "0c4f_azure",
			Wait: 3600 * time.Millisecond, Strict: true,
		}, got)
	})
}

// What is no pod of Kubernetes, or stays as it is, asks nobody.
func TestNobodyIsAsked(t *testing.T) {
	plain := argsOf(`"mode":"strict",`)
	plain.Args = ""
	other := argsOf(`"mode":"strict",`)
	other.Args = "IgnoreUnknown=1;LABEL=x"
	broken := argsOf(`"mode":"off",`)
	broken.Args = "K8S_POD_NAME=a=b"
	for _, args := range []*skel.CmdArgs{plain, other, broken, argsOf(`"mode":"off",`)} {
		stdout, stderr, err := run(t, never(t), plugin.add, args)
		require.NoError(t, err)
		require.Equal(t, resultOfTest, stdout)
		require.Empty(t, stderr)
	}
}

func TestRefusedArgs(t *testing.T) {
	args := argsOf("")
	for _, tc := range []struct{ args, want string }{
		{"K8S_POD_NAME=a=b", `winnpm-cni: CNI_ARGS: ARGS: invalid pair "K8S_POD_NAME=a=b"`},
		{"K8S_POD_NAME=a;X=y", `winnpm-cni: CNI_ARGS: ARGS: unknown args ["X=y"]`},
		{"CommonArgs=a", `winnpm-cni: CNI_ARGS: ARGS: cannot unmarshal into field 'CommonArgs' - type '*types.CommonArgs' does not implement encoding.TextUnmarshaler`},
	} {
		args.Args = tc.args
		_, _, err := run(t, never(t), plugin.add, args)
		require.EqualValues(t, types.ErrInvalidEnvironmentVariables, code(t, err))
		require.EqualError(t, err, tc.want)
	}

	// A pod that no agent would take costs no connection, and strict means strict.
	args = argsOf(`"mode":"strict",`)
	args.Args = "K8S_POD_NAME=a\x1b[31m;K8S_POD_NAMESPACE=shop"
	_, _, err := run(t, never(t), plugin.add, args)
	require.EqualValues(t, types.ErrTryAgainLater, code(t, err))
	require.NotContains(t, err.Error(), "\x1b")
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space") }

func TestResultCannotBeWritten(t *testing.T) {
	err := plugin{stdout: full{}}.add(argsOf(`"mode":"off",`))
	require.EqualValues(t, types.ErrIOFailure, code(t, err))
}

func TestStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := switchboard.New()
		serve(t, b, fails)
		for _, mode := range []string{"strict", "wait", "off"} {
			_, _, err := run(t, to(b), plugin.status, argsOf(`"mode":"`+mode+`",`))
			require.NoError(t, err)
		}
		for _, mode := range []string{"wait", "off"} {
			_, _, err := run(t, never(t), plugin.status, argsOf(`"mode":"`+mode+`",`))
			require.NoError(t, err)
		}
		start := time.Now()
		_, _, err := run(t, nobody, plugin.status, argsOf(`"mode":"strict",`))
		require.Equal(t, 1, seconds(time.Since(start)))
		require.EqualValues(t, types.ErrPluginNotAvailable, code(t, err))
		require.EqualError(t, err, "winnpm-cni: no pod starts here: no agent answers: there is no pipe; "+
			"see that the agent of WinNPM runs on this node and listens on "+node.DefaultPipe)

		_, _, err = run(t, nobody, plugin.status, argsOf(`"mode":"x",`))
		require.EqualValues(t, types.ErrInvalidNetworkConfig, code(t, err))
	})
}

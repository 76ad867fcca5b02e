package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/stretchr/testify/require"
	"k8s.io/klog/v2"

	"github.com/winnpm/winnpm/pkg/node"
	"github.com/winnpm/winnpm/test/switchboard"
)

// agent is a Claimer.
type agent func(ctx context.Context, c node.Claim) error

func (a agent) Claim(ctx context.Context, c node.Claim) error { return a(ctx, c) }

func good(context.Context, node.Claim) error { return nil }

func late(ctx context.Context, _ node.Claim) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// serve has an agent answer on l as long as the test runs.
func serve(t *testing.T, l net.Listener, a agent) {
	t.Helper()
	ctx, end := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- node.Serve(ctx, l, a, klog.Background()) }()
	t.Cleanup(func() {
		end()
		require.NoError(t, <-ended)
	})
}

// nobody is a place where no agent listens.
func nobody(context.Context, string) (net.Conn, error) { return nil, errors.New("there is no pipe") }

// to leads to b, whatever the path is.
func to(b *switchboard.Switchboard) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, _ string) (net.Conn, error) { return b.Dial(ctx) }
}

// run runs one command, and returns what it prints.
func run(t *testing.T, dial func(context.Context, string) (net.Conn, error), command func(plugin, *skel.CmdArgs) error, args *skel.CmdArgs) (stdout, stderr string, err error) {
	t.Helper()
	var out, warnings bytes.Buffer
	err = command(plugin{&out, &warnings, dial}, args)
	return out.String(), warnings.String(), err
}

const podArgsOfTest = "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=api-0;K8S_POD_INFRA_CONTAINER_ID=0c4f;K8S_POD_UID=8d3a"

const resultOfTest = `{ "cniVersion":"1.0.0", "ips":[{"address":"10.1.0.7/16","gateway":"10.1.0.1","interface":0},{"address":"fd00::7/64"}],
	"interfaces":[{"name":"0c4f_azure","mac":"00:11"}],"extra":{"of":["the CNI",1.50]},"dns":{}}`

// argsOf is ADD of a pod with an entry in the list.
func argsOf(entry string) *skel.CmdArgs {
	stdin := fmt.Sprintf(`{"cniVersion":"1.0.0","name":"n","type":"winnpm-cni",%s"prevResult":%s}`, entry, resultOfTest)
	return &skel.CmdArgs{ContainerID: "0c4f", Netns: "{6B0D}", IfName: "eth0", Args: podArgsOfTest, StdinData: []byte(stdin)}
}

// code is that of an error of the CNI, in one line.
func code(t *testing.T, err error) uint {
	t.Helper()
	var e *types.Error
	require.ErrorAs(t, err, &e)
	require.NotContains(t, e.Error(), "\n")
	return e.Code
}

// seconds is how long d was, without its fraction.
func seconds(d time.Duration) int { return int(d / time.Second) }

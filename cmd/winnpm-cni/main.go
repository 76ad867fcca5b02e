// Command winnpm-cni is a chained CNI plugin. Its ADD returns when the agent of this node has put
// the pod's policies in force, so that the pod sends no packet before. The plugin changes nothing
// itself, and returns the result of the plugin before it unchanged.
package main

import (
	"context"
	"io"
	"net"
	"os"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/winnpm/winnpm/pkg/node"
)

// plugin is one run of the program.
type plugin struct {
	stdout, stderr io.Writer
	dial           func(ctx context.Context, path string) (net.Conn, error)
}

func main() {
	p := plugin{stdout: os.Stdout, stderr: os.Stderr, dial: node.DialPipe}
	// DEL, CHECK and GC do nothing, whatever else is in the configuration: a pod must
	// be able to end.
	funcs := skel.CNIFuncs{Add: p.add, Status: p.status}
	skel.PluginMainFuncs(funcs, version.VersionsStartingFrom("0.3.0"), "CNI plugin winnpm-cni: waits for the agent of WinNPM")
}

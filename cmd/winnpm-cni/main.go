// Command winnpm-cni is a chained CNI plugin: it returns from ADD when the agent of this
// node has put the policies of the pod in place, so that no pod runs a packet before. It
// changes nothing itself, and gives back the result of the plugin before it as it is.
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

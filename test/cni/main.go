// Command runtime is containerd as far as CNI goes: it loads the lists of a folder
// through go-cni and sets up and removes the network of pods, as many at once as it is
// told to. Each line of stdin is an order, each line of stdout the answer to one, in the
// order in which they are done. It ends when stdin does and all orders are done. What the
// plugins write to stderr goes to its own.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	gocni "github.com/containerd/go-cni"
	"github.com/containernetworking/cni/pkg/types"
)

// order is one line of stdin.
type order struct {
	Do string `json:"do"` // load, setup or remove
	pod
}

// pod is a sandbox, and the pod that it is for.
type pod struct {
	ID        string `json:"id,omitempty"`    // of the sandbox
	Netns     string `json:"netns,omitempty"` // its namespace, made before
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	UID       string `json:"uid,omitempty"`
}

// answer is one line of stdout.
type answer struct {
	order
	Began time.Time `json:"began"`
	Ended time.Time `json:"ended"` // of setup: before what a failure makes it remove
	IPs   []string  `json:"ips,omitempty"`
	Code  uint      `json:"code,omitempty"`  // CNI's, of an error that a plugin returned
	Error string    `json:"error,omitempty"` // empty: done
}

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "runtime:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("runtime", flag.ContinueOnError)
	confDir := flags.String("conf-dir", "", "folder of CNI's lists")
	binDir := flags.String("bin-dir", "", "folder of CNI's programs")
	if err := flags.Parse(args); err != nil {
		return err
	}
	// As containerd on Windows: the first list of the folder, and no loopback.
	network, err := gocni.New(gocni.WithMinNetworkCount(1), gocni.WithPluginConfDir(*confDir),
		gocni.WithPluginMaxConfNum(1), gocni.WithPluginDir([]string{*binDir}))
	if err != nil {
		return err
	}
	r := &runtime{network: network, out: json.NewEncoder(out)}
	var all sync.WaitGroup
	defer all.Wait()
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var o order
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			return fmt.Errorf("%q: %w", lines.Text(), err)
		}
		all.Go(func() { r.obey(ctx, o) })
	}
	return nil
}

// runtime obeys orders, several at a time.
type runtime struct {
	network gocni.CNI

	mu  sync.Mutex // guards following
	out *json.Encoder
}

// obey does what o says and prints the answer.
func (r *runtime) obey(ctx context.Context, o order) {
	a := answer{order: o, Began: time.Now()}
	var err error
	switch o.Do {
	case "load":
		err = r.network.Load(gocni.WithDefaultConf)
	case "setup":
		a.IPs, err = r.setup(ctx, o.pod)
	case "remove":
		err = r.network.Remove(ctx, o.ID, o.Netns, o.options()...)
	default:
		err = fmt.Errorf("do %q: load, setup and remove are orders", o.Do)
	}
	a.Ended = time.Now()
	var said *types.Error
	if errors.As(err, &said) {
		a.Code = said.Code
	}
	if err != nil {
		a.Error = err.Error()
	}
	if err != nil && o.Do == "setup" {
		// containerd takes down what a failed setup left; the kubelet makes a new sandbox.
		if err := r.network.Remove(ctx, o.ID, o.Netns, o.options()...); err != nil {
			a.Error += "; remove: " + err.Error()
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.out.Encode(a) // whoever does not read it sees that it is missing
}

// setup returns the pod's addresses.
func (r *runtime) setup(ctx context.Context, p pod) ([]string, error) {
	result, err := r.network.Setup(ctx, p.ID, p.Netns, p.options()...)
	if err != nil {
		return nil, err
	}
	var addrs []string
	for _, i := range result.Interfaces {
		for _, ip := range i.IPConfigs {
			addrs = append(addrs, ip.IP.String())
		}
	}
	return addrs, nil
}

// options are what containerd's CRI plugin says of a pod: labels become CNI_ARGS.
func (p pod) options() []gocni.NamespaceOpts {
	return []gocni.NamespaceOpts{
		gocni.WithLabels(map[string]string{
			"K8S_POD_NAMESPACE":          p.Namespace,
			"K8S_POD_NAME":               p.Name,
			"K8S_POD_INFRA_CONTAINER_ID": p.ID,
			"K8S_POD_UID":                p.UID,
			"IgnoreUnknown":              "1",
		}),
		gocni.WithCapability("io.kubernetes.cri.pod-annotations", map[string]string{}),
		gocni.WithCapabilityDNS(gocni.DNS{Servers: []string{"10.0.0.10"}, Searches: []string{p.Namespace + ".svc.cluster.local"}}),
	}
}

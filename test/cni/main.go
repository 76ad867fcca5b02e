// Command runtime stands in for containerd's use of CNI. It loads the configuration lists of a folder
// through go-cni, and sets up and removes the network of pods, concurrently if told so. Its arguments are
// the folders of the configuration lists and of the plugins. Each line of stdin is an order, and each line
// of stdout the answer to one, in the order of completion. It exits when stdin ends and all orders are
// done. Plugins share its stderr.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"os"
	"sync"
	"time"

	gocni "github.com/containerd/go-cni"
	"github.com/containernetworking/cni/pkg/types"
)

// order is one line of stdin: the operation (load, setup or remove), a sandbox, its existing namespace, and
// its pod.
type order struct {
	Do, ID, Netns, Namespace, Name, UID string
}

// answer is one line of stdout.
type answer struct {
	order
	Began time.Time
	Ended time.Time // end of the operation; of a failed setup, before the removal
	IPs   []string
	Code  uint   // the CNI error code that a plugin returned
	Error string // empty: done
}

func main() {
	// As containerd on Windows: the first list of the folder, and no loopback.
	network, err := gocni.New(gocni.WithMinNetworkCount(1), gocni.WithPluginConfDir(os.Args[1]),
		gocni.WithPluginMaxConfNum(1), gocni.WithPluginDir(os.Args[2:]))
	if err != nil {
		log.Fatalln(err)
	}
	var all sync.WaitGroup
	var writing sync.Mutex
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var o order
		err := in.Decode(&o)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			log.Fatalln(err)
		}
		all.Go(func() {
			a := o.obey(context.Background(), network)
			writing.Lock()
			defer writing.Unlock()
			_ = out.Encode(a) // a reader notices a missing answer
		})
	}
	all.Wait()
}

// obey carries out the order.
func (o order) obey(ctx context.Context, network gocni.CNI) answer {
	a := answer{order: o, Began: time.Now()}
	remove := func() error { return network.Remove(ctx, o.ID, o.Netns, o.options()...) }
	result, err := &gocni.Result{}, error(nil)
	switch o.Do {
	case "load":
		err = network.Load(gocni.WithDefaultConf)
	case "setup":
		result, err = network.Setup(ctx, o.ID, o.Netns, o.options()...)
	default:
		err = remove()
	}
	a.Ended = time.Now()
	if err != nil {
		a.Error = err.Error()
		if said := new(types.Error); errors.As(err, &said) {
			a.Code = said.Code
		}
		if o.Do == "setup" { // containerd removes a failed setup; the kubelet creates a new sandbox
			a.Error = errors.Join(err, remove()).Error()
		}
		return a
	}
	for _, i := range result.Interfaces {
		for _, ip := range i.IPConfigs {
			a.IPs = append(a.IPs, ip.IP.String())
		}
	}
	return a
}

// options are the labels that containerd's CRI plugin sets for a pod. They become CNI_ARGS.
func (o order) options() []gocni.NamespaceOpts {
	return []gocni.NamespaceOpts{
		gocni.WithLabels(map[string]string{
			"K8S_POD_NAMESPACE": o.Namespace, "K8S_POD_NAME": o.Name, "K8S_POD_INFRA_CONTAINER_ID": o.ID, "K8S_POD_UID": o.UID, "IgnoreUnknown": "1",
		}),
		gocni.WithCapabilityDNS(gocni.DNS{Servers: []string{"10.0.0.10"}, Searches: []string{o.Namespace + ".svc.cluster.local"}}),
	}
}

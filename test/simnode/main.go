// Program simnode runs an agent on the simulator instead of HNS, and creates endpoints for its pods. It
// watches a live cluster, sends Events, and serves the pages of an agent. At /npm/v1/simulate it serves the
// JSON of kubectl npm simulate, with the verdicts that the query asks for. The end-to-end suite uses it.
package main

import (
	"bytes"
	"context"
	"flag"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/winnpm/winnpm/pkg/controllers"
	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/debug"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/cluster"
	"github.com/winnpm/winnpm/tool/hnssim"
	"github.com/winnpm/winnpm/tool/simulate"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "file with the cluster's address")
	node := flag.String("node", "", "name of the node")
	flag.Parse()
	log.Fatalln(serve(context.Background(), *kubeconfig, *node))
}

// serve returns only on errors.
func serve(ctx context.Context, kubeconfig, node string) error {
	api, err := controllers.RESTConfig(kubeconfig)
	if err != nil {
		return err
	}
	source, err := controllers.ClusterSource(api, node)
	if err != nil {
		return err
	}
	sink, err := controllers.ClusterSink(api)
	if err != nil {
		return err
	}
	sim := hnssim.New(hnssim.Options{})
	dp := dataplane.New(dataplane.Config{Node: node, Now: time.Now, Client: sim})
	pods := &kubelet{dp: dp, sim: sim, pods: map[desired.PodKey]cluster.Pod{}}
	var recorder *controllers.Recorder
	ctl := controllers.New(controllers.Config{
		Source: source, Applier: pods, Progress: dp.Progress, Node: node, Logger: klog.Background(),
		OnApplied: func(done controllers.Applied) { recorder.Applied(done) },
	})
	recorder = controllers.NewRecorder(controllers.EventsConfig{Sink: sink, Node: node, Policy: ctl.Policy, Selecting: dp.Selecting, Logger: klog.Background()})
	go recorder.Run(ctx)
	go ctl.Run(ctx)
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	pages := http.NewServeMux()
	pages.Handle("/", debug.Handler(debug.Config{Dump: dp.Dump, Recording: func(io.Writer) error { return nil }, Healthy: ctl.Healthy, Ready: ctl.Ready, Version: "simnode"}))
	pages.HandleFunc("GET /npm/v1/simulate", func(w http.ResponseWriter, r *http.Request) {
		var body bytes.Buffer // a slow client must not hold up the simulation
		query := r.URL.Query()
		o := simulate.Options{Options: cluster.Options{Node: node}, Matrix: query["matrix"], Trace: query["trace"], All: query.Has("all")}
		pods.mu.Lock()
		err := simulate.WriteResult(r.Context(), &body, sim, dp.Dump(), o)
		pods.mu.Unlock()
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		_, _ = body.WriteTo(w)
	})
	log.Printf("serving on http://%s", l.Addr())
	return debug.Serve(ctx, l, pages)
}

// kubelet creates and deletes the simulated endpoints of local pods before each transaction, as the
// kubelet and the CNI do on a node.
type kubelet struct {
	dp  *dataplane.Dataplane
	sim *hnssim.Sim

	mu   sync.Mutex                     // guards pods, and is held during a transaction
	pods map[desired.PodKey]cluster.Pod // of the node
}

// ApplyDataplane implements controllers.Applier.
func (k *kubelet) ApplyDataplane(ctx context.Context, tx *dataplane.Transaction) (state.Report, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for key, pod := range tx.Pods {
		delete(k.pods, key)
		if pod != nil && pod.Local {
			k.pods[key] = cluster.Pod{Pod: *pod}
		}
	}
	world := cluster.World{Pods: slices.Collect(maps.Values(k.pods))}
	if err := world.SetEndpoints(k.sim, func(cluster.Pod) bool { return true }, true); err != nil {
		return state.Report{}, err
	}
	return k.dp.ApplyDataplane(ctx, tx)
}

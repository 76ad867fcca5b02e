// Program teller runs the part of npm start that kubectl npm simulate lacks, which is the Events, with the
// simulator in place of HNS. The end-to-end suite uses it on Linux. It runs until Ctrl-C.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	"k8s.io/klog/v2"

	"github.com/winnpm/winnpm/pkg/controllers"
	"github.com/winnpm/winnpm/pkg/controllers/events"
	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/tool/hnssim"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "file with the cluster's address")
	node := flag.String("node", "", "name of the node")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *kubeconfig, *node); err != nil {
		fmt.Fprintln(os.Stderr, "teller:", err)
		os.Exit(1)
	}
}

// run tells until ctx ends, which is no error.
func run(ctx context.Context, kubeconfig, node string) error {
	api, err := controllers.RESTConfig(kubeconfig)
	if err != nil {
		return err
	}
	source, err := controllers.ClusterSource(api, node)
	if err != nil {
		return err
	}
	sink, err := events.ClusterSink(api)
	if err != nil {
		return err
	}
	sim := hnssim.New(hnssim.Options{Foreign: hnssim.DefaultForeign()})
	dp := dataplane.New(dataplane.Config{Client: sim, Node: node, Now: time.Now})
	var recorder *events.Recorder
	ctl := controllers.New(controllers.Config{
		Source: source, Applier: dp, Observer: dp, Node: node, RequireNodeAddr: true, Logger: klog.Background(),
		OnApplied: func(done controllers.Applied) { recorder.Applied(done) },
	})
	recorder = events.New(events.Config{Sink: sink, Node: node, Policy: ctl.Policy, ClusterPolicy: ctl.ClusterPolicy, Selecting: dp.Selecting, Logger: klog.Background()})
	go recorder.Run(ctx)
	ctl.Run(ctx)
	return nil
}

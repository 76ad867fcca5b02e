// Program teller is the parts of npm start that ask the API server for more than
// npm simulate does, Events and the HTTPS endpoint, with the agent's pages and the
// simulator in place of HNS: the end-to-end suite runs it where there is no Windows.
// It runs until Ctrl-C.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/winnpm/winnpm/pkg/controllers"
	"github.com/winnpm/winnpm/pkg/controllers/events"
	"github.com/winnpm/winnpm/pkg/controllers/reviews"
	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/debug"
	"github.com/winnpm/winnpm/pkg/debug/access"
	"github.com/winnpm/winnpm/pkg/debug/page"
	"github.com/winnpm/winnpm/pkg/hns/hnssim"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "teller:", err)
		os.Exit(1)
	}
}

// run tells until ctx ends, which is no error.
func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("teller", flag.ContinueOnError)
	kubeconfig := flags.String("kubeconfig", "", "file with the cluster's address")
	node := flags.String("node", "", "name of the node")
	expose := flags.String("expose", "", "address of the HTTPS endpoint (default: none)")
	addrs := flags.String("endpoints", "", "addresses that have an endpoint in the simulator, with commas between them")
	plain := flags.String("serve", "", "address of the HTTP endpoint (default: none)")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	api, err := controllers.RESTConfig(*kubeconfig)
	if err != nil {
		return err
	}
	source, err := controllers.ClusterSource(api, *node)
	if err != nil {
		return err
	}
	sink, err := events.ClusterSink(api)
	if err != nil {
		return err
	}

	sim, err := simulator(*addrs)
	if err != nil {
		return err
	}
	dp := dataplane.New(dataplane.Config{Client: sim, Node: *node, Now: time.Now})
	var recorder *events.Recorder
	ctl := controllers.New(controllers.Config{
		Source: source, Applier: dp, Observer: dp, Node: *node, RequireNodeAddr: true, Logger: klog.Background(),
		OnApplied: func(done controllers.Applied) { recorder.Applied(done) },
	})
	recorder = events.New(events.Config{Sink: sink, Node: *node, Policy: ctl.Policy, ClusterPolicy: ctl.ClusterPolicy, Selecting: dp.Selecting, Idle: dp, UpToDate: ctl.UpToDate, Behind: ctl.Behind, Logger: klog.Background()})
	pages := debug.Config{Dump: dp.Dump, Healthy: ctl.Healthy, Ready: ctl.Ready, Pprof: true, Pages: debug.Site(page.Handler(page.Config{
		Dump: dp.Dump, Healthy: ctl.Healthy, Ready: ctl.Ready, Now: time.Now, Version: "teller",
	}), page.Heavy()...)}
	serve, err := listeners(ctx, *plain, *expose, *node, api, pages)
	if err != nil {
		return err
	}
	var beside sync.WaitGroup
	defer beside.Wait()
	beside.Go(func() { recorder.Run(ctx) })
	for _, one := range serve {
		beside.Go(func() {
			if err := one(); err != nil {
				fmt.Fprintln(os.Stderr, "teller:", err)
			}
		})
	}
	ctl.Run(ctx)
	return nil
}

// simulator returns an HNS in which a CNI has made endpoints for addresses.
func simulator(addrs string) (*hnssim.Sim, error) {
	sim := hnssim.New(hnssim.Options{Foreign: hnssim.DefaultForeign()})
	for i, text := range slices.DeleteFunc(strings.Split(addrs, ","), func(text string) bool { return text == "" }) {
		addr, err := netip.ParseAddr(text)
		if err != nil {
			return nil, err
		}
		if err := sim.CreateEndpoint(hnssim.NewEndpoint{ID: fmt.Sprintf("e2e0%04x-0000-4000-9000-000000000000", i), Addrs: []netip.Addr{addr}}); err != nil {
			return nil, err
		}
	}
	return sim, nil
}

// listeners opens the endpoints that have an address, and returns what serves them.
func listeners(ctx context.Context, plain, expose, node string, api *rest.Config, pages debug.Config) (serve []func() error, err error) {
	if plain != "" {
		one, err := listen(ctx, plain, pages)
		if err != nil {
			return nil, err
		}
		serve = append(serve, one)
	}
	if expose != "" {
		one, err := listenTLS(ctx, expose, node, api, pages)
		if err != nil {
			return nil, err
		}
		serve = append(serve, one)
	}
	return serve, nil
}

// listen opens the HTTP endpoint, says where it is, and returns what serves it.
func listen(ctx context.Context, address string, pages debug.Config) (serve func() error, err error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(os.Stderr, "serves at http://%s\n", l.Addr())
	return func() error { return debug.Serve(ctx, l, debug.Handler(pages)) }, nil
}

// listenTLS opens the HTTPS endpoint, says where it is and under which key, and
// returns what serves it.
func listenTLS(ctx context.Context, address, node string, api *rest.Config, pages debug.Config) (serve func() error, err error) {
	reviewer, err := reviews.New(api)
	if err != nil {
		return nil, err
	}
	certificate, pin, err := access.SelfSigned(node)
	if err != nil {
		return nil, err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(os.Stderr, "exposed at https://%s %s\n", l.Addr(), pin)
	_, guarded := debug.Handlers(pages, access.New(reviewer, klog.Background()).Page)
	return func() error { return debug.ServeTLS(ctx, l, certificate, guarded) }, nil
}

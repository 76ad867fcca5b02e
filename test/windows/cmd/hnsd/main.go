// Program hnsd is the HNS of the tests as a process, for trying npm.exe by hand
// under Wine: it prints the address for HNSD_ADDR and runs until Ctrl-C.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"

	"github.com/winnpm/winnpm/test/windows/hnsd"
	"github.com/winnpm/winnpm/tool/hnssim"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "hnsd:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends. It prints the address, then the endpoints.
func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("hnsd", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:0", "address for the DLLs")
	network := flags.String("network", "azure", "name of the node's network")
	dump := flags.String("dump", "", "address of a web page with the state; empty: none")
	latency := flags.Duration("latency", 0, "time that each call of the DLLs takes")
	var endpoints []netip.Addr
	flags.Func("endpoint", "IP of an endpoint to create (repeatable)", func(text string) error {
		a, err := netip.ParseAddr(text)
		endpoints = append(endpoints, a)
		return err
	})
	var packets []hnssim.Packet
	flags.Func("probe", "FROM->TO:PORT/PROTO to watch; /transitions of the page shows when its verdict moves (repeatable)", func(text string) error {
		p, err := parsePacket(text)
		packets = append(packets, p)
		return err
	})
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}

	s := hnsd.New(hnsd.Options{Network: *network, Foreign: hnssim.DefaultForeign()})
	s.SetLatency(*latency)
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	defer l.Close()
	fmt.Fprintf(out, "HNSD_ADDR=%s\n", l.Addr())
	for _, a := range endpoints {
		id, err := s.CreateEndpoint(a)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "endpoint %s %s\n", id, a)
	}
	s.Sim().Watch(probes(s.Sim(), packets)...)
	if *dump != "" {
		page, err := net.Listen("tcp", *dump)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "dump http://%s\n", page.Addr())
		pages := http.NewServeMux()
		pages.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, s.Sim().Dump()) })
		pages.HandleFunc("/transitions", func(w http.ResponseWriter, _ *http.Request) { writeTransitions(w, s.Sim()) })
		web := http.Server{Handler: pages}
		go web.Serve(page) //nolint:errcheck // ends with the page's listener
		defer web.Close()
	}
	return s.Serve(ctx, l)
}

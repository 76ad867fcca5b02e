// Program simnode runs a simulated node that follows a live cluster, as kubectl npm simulate does
// until its first convergence. It serves the pages of an agent, and at /npm/v1/simulate the result of
// the simulation with the verdicts that the query asks for. The end-to-end suite uses it.
package main

import (
	"bytes"
	"context"
	"flag"
	"log"
	"net"
	"net/http"

	"github.com/winnpm/winnpm/pkg/debug"
	"github.com/winnpm/winnpm/tool/simulate"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "file with the cluster's address")
	node := flag.String("node", "", "name of the node")
	flag.Parse()
	log.Fatalln(serve(context.Background(), *kubeconfig, *node))
}

func serve(ctx context.Context, kubeconfig, node string) error {
	live, err := simulate.Start(ctx, simulate.Options{Kubeconfig: kubeconfig, Node: node, Version: "simnode"})
	if err != nil {
		return err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	pages := http.NewServeMux()
	pages.Handle("/", debug.Handler(live.Pages()))
	pages.HandleFunc("GET /npm/v1/simulate", func(w http.ResponseWriter, r *http.Request) {
		var body bytes.Buffer // a slow client must not hold up the simulation
		query := r.URL.Query()
		if err := live.WriteResult(r.Context(), &body, query["matrix"], query["trace"], query.Has("all")); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		_, _ = body.WriteTo(w)
	})
	log.Printf("serving on http://%s", l.Addr())
	return debug.Serve(ctx, l, pages)
}

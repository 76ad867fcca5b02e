// Program path counts the functions of pkg/ that one event runs, from the API server's watch to HNS: a
// measure of how much code a reader has to understand. It runs the agent on the simulator, and must be
// built with coverage, as hack/path.sh does. It fails if an event runs more functions than its limit.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/coverage"
	"slices"
	"strings"
	"time"

	"github.com/winnpm/winnpm/pkg/controllers"
	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/test/hostile/cluster"
	"github.com/winnpm/winnpm/tool/hnssim"
)

func main() {
	list := flag.Bool("list", false, "print each function")
	flag.Parse()
	if err := run(*list); err != nil {
		log.Fatalln("path:", err)
	}
}

// pod returns a pod of the namespace shop, and policy a policy that lets pods with app=api connect to a
// port of pods with app=db.
func pod(name, address string, local bool, app string) cluster.Object {
	return cluster.Pod{Namespace: "shop", Name: name, Addr: address, Local: local, Labels: map[string]string{"app": app}}.Object()
}

func policy(port int) cluster.Object {
	return cluster.Policy("shop", "db", fmt.Sprintf(`{"podSelector": {"matchLabels": {"app": "db"}}, "policyTypes": ["Ingress"],
		"ingress": [{"from": [{"podSelector": {"matchLabels": {"app": "api"}}}], "ports": [{"port": %d}]}]}`, port))
}

// run measures a label of a remote pod, an edited port and a new pod, one after the other.
func run(list bool) error {
	server := cluster.NewServer(cluster.OwnNode(), cluster.Namespace("shop", nil),
		pod("db-0", "10.1.0.2", true, "db"), pod("api-0", "10.1.1.2", false, "web"), policy(5432))
	sim := hnssim.New(hnssim.Options{Foreign: hnssim.DefaultForeign()})
	start := func(name, address string) error { // as the CNI does for a new pod
		return sim.CreateEndpoint(hnssim.SimEndpoint{ID: name, Addrs: []netip.Addr{netip.MustParseAddr(address)}})
	}
	if err := start("db-0", "10.1.0.2"); err != nil {
		return err
	}
	applied := make(chan controllers.Applied, 100)
	d := dataplane.New(dataplane.Config{Node: cluster.Node, Now: time.Now, Client: sim})
	c := controllers.New(controllers.Config{
		Source: server.Source(), Applier: d, Progress: d.Progress, Node: cluster.Node, OnApplied: func(a controllers.Applied) { applied <- a },
	})
	go c.Run(context.Background())
	for done := false; !done; {
		a := <-applied
		done = a.Err == nil && a.Report.Converged()
	}

	for _, m := range []struct {
		name  string
		most  int // functions: the last figure and 10 %
		event func() error
	}{
		{"label of a remote pod", 139, func() error { server.Put(pod("api-0", "10.1.1.2", false, "api")); return nil }},
		{"port of a policy", 239, func() error { server.Put(policy(5433)); return nil }},
		{"new pod", 266, func() error { server.Put(pod("db-1", "10.1.0.3", true, "db")); return start("db-1", "10.1.0.3") }},
	} {
		time.Sleep(200 * time.Millisecond) // until the worker waits
		sim.ResetCalls()
		if err := errors.Join(coverage.ClearCounters(), m.event()); err != nil {
			return err
		}
		for sim.Written() == 0 {
			<-applied
		}
		functions, files, packages, err := covered()
		if err != nil {
			return err
		}
		fmt.Printf("%-22s %3d functions, %3d files, %2d packages: %s\n", m.name, len(functions), len(files), len(packages), strings.Join(packages, " "))
		if list {
			fmt.Println("  " + strings.Join(functions, "\n  "))
		}
		if len(functions) > m.most {
			return fmt.Errorf("%s: %d functions, more than %d", m.name, len(functions), m.most)
		}
	}
	return nil
}

// covered returns the functions, files and packages below pkg/ that ran since the counters were cleared.
func covered() (functions, files, packages []string, err error) {
	folder, err := os.MkdirTemp(os.Getenv("GOCOVERDIR"), "path")
	if err := errors.Join(err, coverage.WriteMetaDir(folder), coverage.WriteCountersDir(folder)); err != nil {
		return nil, nil, nil, err
	}
	out, err := exec.CommandContext(context.Background(), "go", "tool", "covdata", "func", "-i="+folder).Output()
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line) // file.go:line: name percent
		_, at, below := strings.Cut(fields[0], "/winnpm/pkg/")
		file, _, _ := strings.Cut(at, ":")
		if below && fields[2] != "0.0%" {
			functions, files, packages = append(functions, file+" "+fields[1]), append(files, file), append(packages, filepath.Dir(file))
		}
	}
	return functions, slices.Compact(files), slices.Compact(packages), err
}

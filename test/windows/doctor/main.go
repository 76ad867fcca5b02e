// Program doctor tests on a node the assumptions of WinNPM about HNS (docs/windows.md), and writes the
// results to a JSON file. It writes only to its own networks, and removes them at the end.
//
// On systems other than Windows it tests the simulator.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/winnpm/winnpm/test/hnstest"
)

func main() {
	var o hnstest.Options
	file := flag.String("o", "doctor.json", "`file` to write; it must not be there yet")
	flag.BoolVar(&o.ReadOnly, "read-only", false, "only read")
	flag.BoolVar(&o.L2Bridge, "l2bridge", false, "make an L2Bridge network, as pods have, and no NAT; it may interrupt the node's own connection for seconds")
	flag.BoolVar(&o.Limits, "limits", false, "also write as much as WinNPM ever needs, which takes minutes")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *file, o, thisSystem()); err != nil {
		fmt.Fprintln(os.Stderr, "doctor:", err)
		os.Exit(1)
	}
}

// run asks the questions, and writes the report.
func run(ctx context.Context, file string, o hnstest.Options, s hnstest.System) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	r, err := hnstest.Examine(ctx, o, s)
	if err != nil {
		return errors.Join(err, f.Close(), os.Remove(file))
	}
	r.System = facts()
	enc := json.NewEncoder(f)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := errors.Join(enc.Encode(r), f.Close()); err != nil {
		return err
	}
	count := map[string]int{}
	for _, a := range r.Answers {
		count[a.Verdict]++
		if a.Verdict == hnstest.Refuted {
			fmt.Printf("refuted: %s (%s): %s\n", a.Name, a.Assumptions, a.IfWrong)
		}
	}
	fmt.Printf("%d refuted, %d not asked, %d held: %s\n", count[hnstest.Refuted], count[hnstest.NotAsked], count[hnstest.Held], file)
	if r.Left != "" {
		return fmt.Errorf("this could not be taken away again: %s", r.Left)
	}
	return ctx.Err()
}

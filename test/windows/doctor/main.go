// Program doctor tests on a node what WinNPM assumes about HNS (docs/windows.md), and writes the
// results to a JSON file. It writes only to its own network, and removes that network at the end.
//
// On other systems than Windows it tests the simulator.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"time"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/hnstest"
	"github.com/winnpm/winnpm/test/windows/rawhns"
)

// system gives access to the HNS under test: by single calls, and by the client of the agent.
type system struct {
	hns    rawhns.HNS
	client func(network string) (hns.Client, error) // "": of the networks that pods have
}

// options selects the questions.
type options struct {
	readOnly, l2bridge, limits bool
}

func main() {
	var o options
	file := flag.String("o", "doctor.json", "`file` to write; it must not be there yet")
	flag.BoolVar(&o.readOnly, "read-only", false, "only read")
	flag.BoolVar(&o.l2bridge, "l2bridge", false, "make an L2Bridge network, as pods have, and no NAT; it may interrupt the node's own connection for seconds")
	flag.BoolVar(&o.limits, "limits", false, "also write as much as WinNPM ever needs, which takes minutes")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *file, o, thisSystem()); err != nil {
		fmt.Fprintln(os.Stderr, "doctor:", err)
		os.Exit(1)
	}
}

// run asks the questions, and writes the report.
func run(ctx context.Context, file string, o options, s system) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	r, err := examine(ctx, o, s)
	if err != nil {
		return errors.Join(err, f.Close(), os.Remove(file))
	}
	enc := json.NewEncoder(f)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := errors.Join(enc.Encode(r), f.Close()); err != nil {
		return err
	}
	for _, a := range r.Answers {
		if a.Verdict == refuted {
			fmt.Printf("refuted: %s (%s): %s\n", a.Name(), a.Assumptions, a.IfWrong)
		}
	}
	fmt.Printf("%d refuted, %d not asked, %d held: %s\n", r.count(refuted), r.count(notAsked), r.count(held), file)
	if r.Left != "" {
		return fmt.Errorf("this could not be taken away again: %s", r.Left)
	}
	return ctx.Err()
}

// examine asks the questions one after the other. At the start it removes objects that an earlier
// run left, and at the end, also when ctx is done, the objects that it made.
func examine(ctx context.Context, o options, s system) (*report, error) {
	n := &node{hns: s.hns}
	r := &report{Began: time.Now(), System: facts()}
	if _, err := s.hns.List("Network"); err != nil {
		return nil, fmt.Errorf("HNS does not list its networks; run the doctor as Administrator: %w", err)
	}
	all, err := s.client("")
	if err != nil {
		return nil, err
	}
	own := all
	if !o.readOnly {
		if err := n.clean(); err != nil {
			return nil, fmt.Errorf("an earlier run has left something: %w", err)
		}
		r.Network = map[bool]string{false: "NAT", true: "L2Bridge"}[o.l2bridge]
		if err := n.make(r.Network); err != nil {
			return nil, errors.Join(err, n.clean())
		}
		if own, err = s.client(networkName); err != nil {
			return nil, errors.Join(err, n.clean())
		}
	}
	for _, q := range hnstest.Questions() {
		client := own
		switch {
		case q.Phase == hnstest.ReadOnly:
			client = all
		case o.readOnly, q.Phase == hnstest.Limits && !o.limits:
			continue
		}
		if ctx.Err() != nil {
			break
		}
		a := &answer{Question: q, ctx: ctx, Verdict: held}
		a.ask(client, n)
		r.Answers = append(r.Answers, a)
	}
	if !o.readOnly {
		if err := n.clean(); err != nil {
			r.Left = err.Error()
		}
	}
	return r, nil
}

// facts returns what Windows says of itself, and the switches of HNS in the registry.
func facts() string {
	if runtime.GOOS != "windows" {
		return "the simulator, on " + runtime.GOOS
	}
	var out strings.Builder
	for _, args := range [][]string{{"cmd", "/c", "ver"}, {"reg", "query", `HKLM\SYSTEM\CurrentControlSet\Services\hns\State`}} {
		text, err := exec.Command(args[0], args[1:]...).CombinedOutput()
		fmt.Fprintf(&out, "%s", text)
		if err != nil {
			fmt.Fprintf(&out, "%s: %v\n", args[0], err)
		}
	}
	return out.String()
}

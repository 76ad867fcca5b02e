// Package hnstest has a table of questions about HNS, and answers them. Each question has an assumption of
// WinNPM, its source, and the effect if it is wrong. Tests put the questions to the simulator, directly and
// below the agent's adapter. test/windows/doctor puts them to the HNS of a node, or of Wine.
//
// HNS may return objects in any order, and may put its own policies on every endpoint. If HNS cannot create
// an object that a question needs, such as a second endpoint with the same address, the question is
// skipped, and the report says so.
package hnstest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/winnpm/winnpm/pkg/hns"
)

// The verdicts of a question.
const (
	Held     = "held"
	Refuted  = "refuted"
	NotAsked = "not asked"
)

// Answer is the answer to a question.
type Answer struct {
	Question
	Verdict string   `json:"verdict"`
	Why     string   `json:"why,omitempty"`
	Log     []string `json:"log"` // each request with its outcome
	Millis  int64    `json:"millis"`
}

// Report has the answers about a node.
type Report struct {
	Began   time.Time `json:"began"`
	System  string    `json:"system"`
	Network string    `json:"network,omitempty"` // type of the network that the questions use; empty: nothing was written
	Left    string    `json:"left,omitempty"`    // objects that could not be removed
	Answers []*Answer `json:"answers"`
}

// System gives access to the HNS under test: by single calls, and by the client under test.
type System struct {
	HNS    HNS
	Client func(network string) (hns.Client, error) // "": the networks of pods
}

// Options selects the questions, and the kind of network: L2Bridge or NAT.
type Options struct {
	ReadOnly, L2Bridge, Limits bool
}

// Examine asks the questions one after the other. At the start it removes the objects of an earlier run,
// and at the end its own objects, even if ctx is done.
func Examine(ctx context.Context, o Options, s System) (*Report, error) {
	n := &Node{HNS: s.HNS}
	r := &Report{Began: time.Now()}
	if _, err := s.HNS.List("Network"); err != nil {
		return nil, fmt.Errorf("HNS does not list its networks; run the doctor as Administrator: %w", err)
	}
	all, err := s.Client("")
	if err != nil {
		return nil, err
	}
	mine := all
	if !o.ReadOnly {
		r.Network = map[bool]string{false: "NAT", true: "L2Bridge"}[o.L2Bridge]
		if err = n.Make(r.Network); err == nil {
			mine, err = s.Client(NetworkName)
		}
		if err != nil {
			return nil, errors.Join(err, n.Clean())
		}
	}
	for _, q := range Questions() {
		client := mine
		switch {
		case q.Phase == ReadOnly:
			client = all
		case o.ReadOnly, q.Phase == Limits && !o.Limits:
			continue
		}
		if ctx.Err() != nil {
			break
		}
		r.Answers = append(r.Answers, q.answer(ctx, client, n))
	}
	if !o.ReadOnly {
		if err := n.Clean(); err != nil {
			r.Left = err.Error()
		}
	}
	return r, nil
}

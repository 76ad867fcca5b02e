package main

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/hnstest"
)

// Verdicts of a question.
const (
	held     = "held"
	refuted  = "refuted"
	notAsked = "not asked"
)

// report is what the doctor writes.
type report struct {
	Began   time.Time `json:"began"`
	System  string    `json:"system"`
	Network string    `json:"network,omitempty"` // type of the doctor's own network; empty: nothing was written
	Left    string    `json:"left,omitempty"`    // what could not be taken away again
	Answers []*answer `json:"answers"`
}

func (r *report) count(verdict string) (n int) {
	for _, a := range r.Answers {
		if a.Verdict == verdict {
			n++
		}
	}
	return n
}

// answer is that of one question. It implements hnstest.T.
type answer struct {
	hnstest.Question
	Verdict string   `json:"verdict"`
	Why     string   `json:"why,omitempty"`
	Log     []string `json:"log"` // each request with its outcome
	Millis  int64    `json:"millis"`

	ctx      context.Context
	cleanups []func()
}

// ask asks the question, and cleans up after it.
func (a *answer) ask(client hns.Client, n *node) {
	began := time.Now()
	apart(func() { a.Ask(a, client, n, &hnstest.Report{}) })
	for i := len(a.cleanups) - 1; i >= 0; i-- {
		apart(a.cleanups[i])
	}
	a.Millis = time.Since(began).Milliseconds()
}

// apart runs do in a goroutine that FailNow and Skip may end.
func apart(do func()) {
	var running sync.WaitGroup
	running.Go(do)
	running.Wait()
}

// Name implements hnstest.T.
func (a *answer) Name() string { return a.Question.Name }

// Context implements hnstest.T.
func (a *answer) Context() context.Context { return a.ctx }

// Helper implements hnstest.T.
func (a *answer) Helper() {}

// Cleanup implements hnstest.T.
func (a *answer) Cleanup(do func()) { a.cleanups = append(a.cleanups, do) }

// Logf implements hnstest.T.
func (a *answer) Logf(format string, args ...any) {
	a.Log = append(a.Log, fmt.Sprintf(format, args...))
}

// Errorf implements hnstest.T.
func (a *answer) Errorf(format string, args ...any) {
	a.Verdict = refuted
	a.Why += fmt.Sprintf(format, args...)
}

// FailNow implements hnstest.T.
func (a *answer) FailNow() {
	a.Verdict = refuted
	runtime.Goexit()
}

// Skip implements hnstest.T. What was refuted before stays refuted.
func (a *answer) Skip(args ...any) {
	if a.Verdict != refuted {
		a.Verdict, a.Why = notAsked, fmt.Sprint(args...)
	}
	runtime.Goexit()
}

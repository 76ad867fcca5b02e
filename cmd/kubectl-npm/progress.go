package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/winnpm/winnpm/pkg/cli"
)

// The progress line appears after progressAfter, so that a short command shows none, and is updated
// every progressEvery.
const (
	progressAfter = time.Second
	progressEvery = 500 * time.Millisecond
)

// computing lists the commands that may compute for a long time before they print anything.
var computing = []string{"plan", "simulate", "support-bundle", "trace"}

// watched returns streams for a command. If the command is one of computing and stderr is a terminal,
// a progress line shows the elapsed time until the first output or until stop is called.
func watched(std cli.Streams, args []string) (out cli.Streams, stop func()) {
	file, ok := std.Err.(*os.File)
	if !ok || len(args) == 0 || !slices.Contains(computing, args[0]) || !term.IsTerminal(int(file.Fd())) {
		return std, func() {}
	}
	p := newProgress(file, program+" "+args[0])
	std.Out, std.Err = &endingWriter{p, std.Out}, &endingWriter{p, std.Err}
	return std, p.end
}

// progress is a line on a terminal that is overwritten with each update and erased at the end.
type progress struct {
	to    io.Writer
	what  string
	begun time.Time
	once  sync.Once
	ended chan struct{}
	done  sync.WaitGroup
	width int
}

func newProgress(to io.Writer, what string) *progress {
	p := &progress{to: to, what: what, begun: time.Now(), ended: make(chan struct{})}
	p.done.Go(p.run)
	return p
}

func (p *progress) run() {
	wait := time.NewTimer(progressAfter)
	defer wait.Stop()
	for {
		select {
		case <-p.ended:
			p.show("")
			return
		case <-wait.C:
			p.show(fmt.Sprintf("%s: %d s, Ctrl-C ends it", p.what, int(time.Since(p.begun).Seconds())))
			wait.Reset(progressEvery)
		}
	}
}

// show replaces the line by text; "" erases it. It ignores write errors.
func (p *progress) show(text string) {
	if text == "" && p.width == 0 {
		return
	}
	_, _ = fmt.Fprintf(p.to, "\r%s\r%s", strings.Repeat(" ", p.width), text)
	p.width = len(text)
}

// end stops the updates and erases the line. It returns when that is done, so that other output can follow.
func (p *progress) end() {
	p.once.Do(func() {
		close(p.ended)
		p.done.Wait()
	})
}

// endingWriter is a writer whose first byte ends the progress.
type endingWriter struct {
	p  *progress
	to io.Writer
}

// Write implements io.Writer.
func (q *endingWriter) Write(b []byte) (int, error) {
	q.p.end()
	return q.to.Write(b)
}

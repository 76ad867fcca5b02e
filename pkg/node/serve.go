package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"golang.org/x/net/netutil"
	"k8s.io/klog/v2"
)

const (
	// mostAtOnce limits the connections that are served at the same time. Further callers wait until
	// they are accepted, and cost nothing until then. A node starts fewer pods at a time.
	mostAtOnce = 256

	// lineTime is how long a caller may take to write its claim, and to read its answer.
	lineTime = 5 * time.Second

	// pause is the time between two attempts to accept or to dial.
	pause = 200 * time.Millisecond
)

// Serve answers the claims that come in on l until ctx ends. Then it closes l and all connections
// without an answer, so that their callers ask the next agent, and returns nil after all calls of
// claimer have returned. It returns an error only if l was closed before.
func Serve(ctx context.Context, l net.Listener, claimer Claimer, logger klog.Logger) error {
	ctx, cancel := context.WithCancel(ctx)
	var served sync.WaitGroup
	defer served.Wait()
	defer cancel()
	l = netutil.LimitListener(l, mostAtOnce)
	defer func() { _ = l.Close() }() // it may be closed
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()

	s := server{claimer, logger}
	failed := false // once is enough for the log
	for {
		conn, err := l.Accept()
		switch {
		case err == nil:
			failed = false
			served.Go(func() { s.serve(ctx, conn) })
			continue
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("accept claims on %s: %w", l.Addr(), err)
		case !failed:
			failed = true
			logger.Error(err, "Accepting claims of the CNI plugin, trying again", "address", l.Addr().String())
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

type server struct {
	claimer Claimer
	logger  klog.Logger
}

// serve answers one claim.
func (s server) serve(ctx context.Context, conn net.Conn) {
	defer func() { _ = conn.Close() }() // all was said
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()

	_ = conn.SetDeadline(time.Now().Add(lineTime)) // a connection that accepts no deadline fails below
	c, err := readClaim(conn)
	var answer Answer
	switch {
	case errors.Is(err, errSilent) || ctx.Err() != nil:
		return
	case err != nil:
		answer = Answer{Code: CodeRefused, Reason: reason(err.Error())}
		s.logger.Info("Refused a claim of the CNI plugin", "reason", answer.Reason)
	default:
		answer = s.claim(ctx, conn, c)
	}
	if ctx.Err() != nil { // the agent ends, not the claim
		return
	}
	_ = conn.SetDeadline(time.Now().Add(lineTime))
	_ = writeLine(conn, answer) // a caller that is gone asks again, or needs no answer
}

// claim calls the claimer. It ends the call's context when Wait is over or the caller hangs up.
func (s server) claim(ctx context.Context, conn net.Conn, c Claim) Answer {
	ctx, hungUp := context.WithCancelCause(ctx)
	defer hungUp(nil)
	ctx, cancel := context.WithTimeoutCause(ctx, c.Wait, ErrLate)
	defer cancel()

	// The caller sends nothing after its claim, so a Read returns when it hangs up.
	_ = conn.SetReadDeadline(time.Time{})
	listening := make(chan struct{})
	go func() {
		defer close(listening)
		_, _ = conn.Read(make([]byte, 1))
		hungUp(ErrHungUp)
	}()
	defer func() {
		_ = conn.SetReadDeadline(time.Unix(1, 0)) // ends the Read
		<-listening
	}()

	err := s.claimer.Claim(ctx, c)
	switch {
	case err == nil:
		return Answer{Ready: true}
	case errors.Is(context.Cause(ctx), ErrLate):
		return Answer{Code: CodeLate, Reason: reason(fmt.Sprintf("its policies were not in place after %s: %v", c.Wait.Round(time.Millisecond), err))}
	}
	return Answer{Code: CodeFailed, Reason: reason(err.Error())}
}

package node

import (
	"context"
	"fmt"
	"net"
	"time"
)

// Ask asks the agent to make the endpoint of a claim ready, and returns nil when it is. It
// dials again until c.Wait is over, because the agent may be starting, or may end before it
// answers. The errors are ErrRefused, with the Answer or with the fault of the
// claim, ErrHung and ErrNoAgent.
func Ask(ctx context.Context, dial func(context.Context) (net.Conn, error), c Claim) (Answer, error) {
	if err := c.check(); err != nil {
		return Answer{Code: CodeRefused, Reason: err.Error()}, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	deadline := time.Now().Add(c.Wait)
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	var answer Answer
	err := again(ctx, func() (done bool, err error) {
		left := time.Until(deadline)
		// The agent's answer at the end of its wait has to arrive before our wait ends.
		c.Wait = max(left-min(left/10, 500*time.Millisecond), time.Millisecond)
		answer, err = ask(ctx, dial, c)
		return answer != (Answer{}), err
	})
	return answer, err
}

// Reach returns nil when an agent accepts a connection before ctx ends, otherwise ErrNoAgent.
// It dials again until then.
func Reach(ctx context.Context, dial func(context.Context) (net.Conn, error)) error {
	return again(ctx, func() (bool, error) {
		conn, err := dial(ctx)
		if err != nil {
			return false, fmt.Errorf("%w: %w", ErrNoAgent, err)
		}
		_ = conn.Close() // nothing was said
		return true, nil
	})
}

// again calls try until that is done or ctx ends, with a pause after each failure, and returns
// the error of the last try.
func again(ctx context.Context, try func() (done bool, err error)) error {
	for {
		done, err := try()
		if done {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return err
		}
	}
}

// ask asks once. If the agent ends before it answers, the error is ErrNoAgent. The answer is the
// zero value if the agent gave none.
func ask(ctx context.Context, dial func(context.Context) (net.Conn, error), c Claim) (Answer, error) {
	conn, err := dial(ctx)
	if err != nil {
		return Answer{}, fmt.Errorf("%w: %w", ErrNoAgent, err)
	}
	defer func() { _ = conn.Close() }() // all was said
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()

	err = writeLine(conn, c)
	var answer Answer
	if err == nil {
		answer, err = readAnswer(conn)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return Answer{}, fmt.Errorf("%w: %w", ErrHung, ctx.Err())
	case err != nil:
		return Answer{}, fmt.Errorf("%w: %w", ErrNoAgent, err)
	case answer.Ready:
		return answer, nil
	}
	if answer.Code == "" {
		answer.Code = CodeFailed
	}
	return answer, fmt.Errorf("%w: %s: %s", ErrRefused, answer.Code, answer.Reason)
}

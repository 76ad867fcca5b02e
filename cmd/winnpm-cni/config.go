package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"time"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/winnpm/winnpm/pkg/node"
)

const maxWaitSeconds = int(node.MaxWait / time.Second)

// config is our plugin's configuration.
type config struct {
	Mode        string          `json:"mode"`
	WaitSeconds int             `json:"waitSeconds"`
	Pipe        string          `json:"pipe"`
	PrevResult  json.RawMessage `json:"prevResult"`
}

// parse reads the configuration that the runtime writes to stdin. An error is one line, with the
// CNI error code 7.
func parse(stdin []byte) (config, error) {
	c := config{Mode: node.ModeWait, WaitSeconds: int(node.DefaultWait / time.Second), Pipe: node.DefaultPipe}
	if err := json.Unmarshal(stdin, &c); err != nil {
		return config{}, badConfig("%v", err)
	}
	switch c.Mode {
	case node.ModeStrict, node.ModeWait, node.ModeOff:
	default:
		return config{}, badConfig("mode %q; use %s, %s or %s", c.Mode, node.ModeStrict, node.ModeWait, node.ModeOff)
	}
	if c.WaitSeconds < 1 || c.WaitSeconds > maxWaitSeconds {
		return config{}, badConfig("waitSeconds %d; use 1 to %d, or mode %s", c.WaitSeconds, maxWaitSeconds, node.ModeOff)
	}
	if c.Pipe == "" {
		return config{}, badConfig(`pipe ""; leave it out for %s, or use mode %s`, node.DefaultPipe, node.ModeOff)
	}
	return c, nil
}

// dialing returns a function that connects to the pipe of c.
func (p plugin) dialing(c config) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) { return p.dial(ctx, c.Pipe) }
}

// chained returns an error if there is no plugin before this one in the list.
func (c config) chained() error {
	if len(c.PrevResult) == 0 || bytes.Equal(c.PrevResult, []byte("null")) {
		return badConfig("no prevResult; put it behind the plugin that makes the endpoint, in a list")
	}
	return nil
}

// result reads the result of the plugin before this one.
func (c config) result() (prevResult, error) {
	var r prevResult
	if err := json.Unmarshal(c.PrevResult, &r); err != nil {
		return r, badConfig("prevResult: %v", err)
	}
	return r, nil
}

func badConfig(format string, args ...any) error {
	return types.NewError(types.ErrInvalidNetworkConfig, "winnpm-cni: configuration: "+fmt.Sprintf(format, args...), "")
}

// Package pipe carries pkg/gate on a computer: over a named pipe that only SYSTEM and
// administrators can open, on systems other than Windows over a socket in the file
// system, which is there for tests.
package pipe

import (
	"context"
	"net"
)

// access lets SYSTEM and administrators in, and nobody else, and takes over no entries
// of others. It says who may ask the agent, and who may add an instance of the pipe.
const access = "D:P(A;;GA;;;SY)(A;;GA;;;BA)"

// Listen makes a pipe, which must not be there, whoever has it.
func Listen(path string) (net.Listener, error) { return listen(path) }

// Dial opens a pipe of this computer, whose owner must have the rights of an agent: any
// process may make a pipe while no agent has it. While the pipe has no free instance,
// it waits until ctx ends.
func Dial(ctx context.Context, path string) (net.Conn, error) { return dial(ctx, path) }

package node

import (
	"context"
	"net"
)

// pipeAccess lets only SYSTEM and administrators in, and inherits no entries. It says who may ask the agent, and
// who may add an instance of the pipe.
const pipeAccess = "D:P(A;;GA;;;SY)(A;;GA;;;BA)"

// ListenPipe creates the named pipe where the agent answers claims. It fails if the pipe exists. Only SYSTEM and
// administrators can open the pipe. On systems other than Windows it is a socket in the file system, for tests.
func ListenPipe(path string) (net.Listener, error) { return listenPipe(path) }

// DialPipe opens a pipe of this computer. It fails if the owner of the pipe does not have the rights of an agent: any
// process can create the pipe while no agent has it. While the pipe has no free instance, it waits until ctx ends.
func DialPipe(ctx context.Context, path string) (net.Conn, error) { return dialPipe(ctx, path) }

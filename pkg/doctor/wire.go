package doctor

import (
	"context"
	"io"
	"net/netip"
)

// Place is where one endpoint of the doctor's own is on the wire.
type Place struct {
	Endpoint    string // its GUID
	Compartment uint32 // in which its sockets are
	Addr        netip.Addr
}

// Flow is a connection by its first packet.
type Flow struct {
	From, To Place
	Protocol uint8 // 6 or 17
	Port     uint16
}

// Fate is what becomes of a flow.
type Fate string

// The fates.
const (
	Passed  Fate = "passed"  // there and back
	Dropped Fate = "dropped" // no answer
	Reset   Fate = "reset"   // an answer that there is nobody
)

// Wire sends packets between the doctor's endpoints. Its methods may be called at once.
type Wire interface {
	// Serve answers whatever comes to ports of a place, TCP and UDP, until it is closed.
	Serve(ctx context.Context, at Place, ports []uint16) (io.Closer, error)
	// Send tries a flow once. An error says that nobody knows what became of it.
	Send(ctx context.Context, f Flow) (Fate, error)
	// Open tries a flow of TCP and keeps it; Conversation is nil unless it passed.
	Open(ctx context.Context, f Flow) (Conversation, Fate, error)
}

// Conversation is an open connection.
type Conversation interface {
	// Ask sends something and waits for the answer.
	Ask(ctx context.Context) (Fate, error)
	io.Closer
}

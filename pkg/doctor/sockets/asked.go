package sockets

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/winnpm/winnpm/pkg/doctor"
)

// askedWire asks the library itself what becomes of packets.
type askedWire struct{ library doctor.Library }

// Asked returns a wire for where no packet can be sent: it asks HNS. That answers only in
// the place of HNS in the tests, which has a request for it that no real one has.
func Asked(library doctor.Library) doctor.Wire { return askedWire{library} }

// packetRequest is one packet, or something done with a connection.
type packetRequest struct {
	From, To string `json:",omitempty"`
	Protocol uint8  `json:",omitempty"`
	Port     uint16 `json:",omitempty"`
	Open     bool   `json:",omitempty"`
	Stream   uint64 `json:",omitempty"`
	Close    bool   `json:",omitempty"`
}

// packetAnswer says what became of it.
type packetAnswer struct {
	Fate   doctor.Fate
	Error  string
	Stream uint64
}

func (w askedWire) ask(ctx context.Context, r packetRequest) (packetAnswer, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return packetAnswer{}, err
	}
	out, err := w.library.Call(ctx, "HNSCall", doctor.Arguments{Texts: []string{"POST", "/winnpm/packets", string(text)}})
	if err != nil {
		return packetAnswer{}, err
	}
	var a packetAnswer
	if err := json.Unmarshal([]byte(out.Output), &a); err != nil {
		return packetAnswer{}, fmt.Errorf("0x%08x: %w", out.HResult, err)
	}
	if a.Fate == "" {
		return a, errors.New(cmp.Or(a.Error, "this HNS knows nothing of packets"))
	}
	return a, nil
}

// Serve implements doctor.Wire: there is nobody to answer.
func (w askedWire) Serve(context.Context, doctor.Place, []uint16) (io.Closer, error) {
	return io.NopCloser(nil), nil
}

// Send implements doctor.Wire.
func (w askedWire) Send(ctx context.Context, f doctor.Flow) (doctor.Fate, error) {
	a, err := w.ask(ctx, packetRequest{From: f.From.Endpoint, To: f.To.Endpoint, Protocol: f.Protocol, Port: f.Port})
	return a.Fate, err
}

// Open implements doctor.Wire.
func (w askedWire) Open(ctx context.Context, f doctor.Flow) (doctor.Conversation, doctor.Fate, error) {
	a, err := w.ask(ctx, packetRequest{From: f.From.Endpoint, To: f.To.Endpoint, Protocol: f.Protocol, Port: f.Port, Open: true})
	if err != nil || a.Fate != doctor.Passed {
		return nil, a.Fate, err
	}
	return askedConversation{context.WithoutCancel(ctx), w, a.Stream}, doctor.Passed, nil
}

type askedConversation struct {
	ctx    context.Context // of its end, which comes whatever happens
	wire   askedWire
	stream uint64
}

// Ask implements doctor.Conversation.
func (c askedConversation) Ask(ctx context.Context) (doctor.Fate, error) {
	a, err := c.wire.ask(ctx, packetRequest{Stream: c.stream})
	return a.Fate, err
}

// Close implements doctor.Conversation.
func (c askedConversation) Close() error {
	_, err := c.wire.ask(c.ctx, packetRequest{Stream: c.stream, Close: true})
	return err
}

package recorder

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/winnpm/winnpm/pkg/bounded"
	"github.com/winnpm/winnpm/pkg/hns"
)

// ErrNoRecording is text that is not what Encode writes.
var ErrNoRecording = errors.New("no recording")

// header is the first line of a recording's text: all but the steps, which
// follow one by one.
type header struct {
	Recording
	Steps int `json:"steps"` // how many lines follow
}

// Encode writes a recording as lines of JSON, step by step. What was read as it
// had been before is not written again. It fails with w's error, or when a time
// has a year that RFC 3339 cannot write.
func Encode(w io.Writer, rec Recording) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false) // others' policies are to come back byte for byte
	if err := enc.Encode(header{rec, len(rec.Steps)}); err != nil {
		return err
	}
	last := newSeen(math.MaxInt)
	for _, s := range rec.Steps {
		s.Calls = slices.Clone(s.Calls)
		for i := range s.Calls {
			last.shorten(&s.Calls[i])
		}
		if err := enc.Encode(s); err != nil {
			return err
		}
	}
	return nil
}

// shorten replaces what a call read by its name where it is as it was last read.
func (s *seen) shorten(c *Call) {
	if c.Network != nil {
		n := *c.Network
		n.Sets = slices.Clone(n.Sets)
		for i, v := range n.Sets {
			if was, ok := s.sets[v.ID]; ok && was.equal(v) {
				n.Sets[i] = SetValue{ID: v.ID, Same: true}
			}
			s.sets[v.ID] = v
		}
		c.Network = &n
	}
	if len(c.IDs) > 0 {
		if slices.Equal(s.ids, c.IDs) {
			c.IDs, c.SameIDs = nil, true
		} else {
			s.ids = c.IDs
		}
	}
	c.Endpoints = slices.Clone(c.Endpoints)
	for i, v := range c.Endpoints {
		if was, ok := s.endpoints[v.ID]; ok && was.equal(v) {
			c.Endpoints[i] = EndpointValue{ID: v.ID, Same: true}
		}
		s.endpoints[v.ID] = v
	}
}

func (v SetValue) equal(o SetValue) bool {
	return v.Name == o.Name && v.Type == o.Type && v.Count == o.Count && v.Digest == o.Digest &&
		(v.Values == nil) == (o.Values == nil) && slices.Equal(v.Values, o.Values)
}

func (v EndpointValue) equal(o EndpointValue) bool {
	return v.Version == o.Version && v.Count == o.Count && (v.Policies == nil) == (o.Policies == nil) &&
		slices.Equal(v.Addrs, o.Addrs) && v.Netns == o.Netns && slices.EqualFunc(v.Policies, o.Policies, hns.EndpointPolicy.Equal)
}

// Decode reads back what Encode wrote, to the end of r. It fails with
// ErrNoRecording for anything else, and with a bounded.ErrTooMuch for what is above
// bounded.OfAnAgent. Of what it returns every field is there
// that its kind needs; it need not fit together otherwise.
func Decode(r io.Reader) (Recording, error) { return decodeLimited(r, bounded.OfAnAgent) }

func decodeLimited(r io.Reader, limits bounded.Limits) (Recording, error) {
	dec := json.NewDecoder(bounded.Reader(r, limits))
	dec.DisallowUnknownFields()
	rec, err := decode(dec)
	if err != nil {
		return Recording{}, fmt.Errorf("%w: %w", ErrNoRecording, err)
	}
	return rec, nil
}

func decode(dec *json.Decoder) (Recording, error) {
	var h header
	if err := dec.Decode(&h); err != nil {
		return Recording{}, err
	}
	rec := h.Recording
	if rec.Format < 1 || rec.Format > Format {
		return rec, fmt.Errorf("its format is %d, this program reads 1 to %d", rec.Format, Format)
	}
	last := newSeen(math.MaxInt)
	for dec.More() {
		var s Step
		if err := dec.Decode(&s); err != nil {
			return rec, fmt.Errorf("step %d: %w", len(rec.Steps)+1, err)
		}
		if n := len(rec.Steps); n > 0 && s.Number <= rec.Steps[n-1].Number {
			return rec, fmt.Errorf("step %d comes behind step %d", s.Number, rec.Steps[n-1].Number)
		}
		if err := s.complete(last); err != nil {
			return rec, fmt.Errorf("step %d: %w", s.Number, err)
		}
		rec.Steps = append(rec.Steps, s)
	}
	switch _, err := dec.Token(); {
	case !errors.Is(err, io.EOF):
		return rec, fmt.Errorf("after step %d: %w", len(rec.Steps), err)
	case len(rec.Steps) != h.Steps:
		return rec, fmt.Errorf("it says that it has %d steps, and has %d", h.Steps, len(rec.Steps))
	}
	return rec, nil
}

// complete checks a step that was read and gives back what was not written
// again.
func (s *Step) complete(last *seen) error {
	if s.Kind != Transaction && s.Kind != Observation {
		return fmt.Errorf("kind %q", s.Kind)
	}
	if s.Look != nil && s.Kind != Observation {
		return errors.New("a look that is no observation")
	}
	for i, e := range s.Events {
		if !e.complete() {
			return fmt.Errorf("event %d is not whole", i)
		}
	}
	for i := range s.Calls {
		if err := last.restore(&s.Calls[i]); err != nil {
			return fmt.Errorf("call %d: %w", i, err)
		}
	}
	return nil
}

// complete reports whether an event has what its kind needs, and nothing else.
func (e Event) complete() bool {
	has := map[string]bool{
		KindPod: e.Pod != nil, KindNamespace: e.Namespace != nil, KindPolicy: e.Policy != nil, KindNode: e.Operation == Set,
		KindClusterPolicy: e.ClusterPolicy != nil, KindClusterNode: e.ClusterNode != nil,
	}
	if _, ok := has[e.Kind]; !ok || e.Operation != Set && e.Operation != Delete {
		return false
	}
	for kind, is := range has {
		if kind != KindNode && is != (kind == e.Kind && e.Operation == Set) {
			return false
		}
	}
	return has[KindNode] || e.Kind != KindNode
}

// restore is the inverse of shorten.
func (s *seen) restore(c *Call) error {
	compact(c.Policies)
	if c.Network != nil {
		for i, v := range c.Network.Sets {
			was, ok := s.sets[v.ID]
			switch {
			case !v.Same:
			case !ok:
				return fmt.Errorf("set %q was not read before", v.ID)
			default:
				c.Network.Sets[i] = was
			}
			s.sets[v.ID] = c.Network.Sets[i]
		}
	}
	switch {
	case c.SameIDs && s.ids == nil:
		return errors.New("GUIDs were not read before")
	case c.SameIDs:
		c.IDs, c.SameIDs = s.ids, false
	case len(c.IDs) > 0:
		s.ids = c.IDs
	}
	for i, v := range c.Endpoints {
		was, ok := s.endpoints[v.ID]
		switch {
		case !v.Same:
			compact(v.Policies)
		case !ok:
			return fmt.Errorf("endpoint %q was not read before", v.ID)
		default:
			c.Endpoints[i] = was
		}
		s.endpoints[v.ID] = c.Endpoints[i]
	}
	return nil
}

// compact takes the blanks out of policies, as writing them does.
func compact(policies []hns.EndpointPolicy) {
	for i, p := range policies {
		var b bytes.Buffer
		if json.Compact(&b, p.Settings) == nil { // it was read as JSON, or is not there
			policies[i].Settings = b.Bytes()
		}
		if len(p.Settings) == 0 {
			policies[i].Settings = json.RawMessage("null")
		}
	}
}

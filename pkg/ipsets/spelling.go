package ipsets

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"slices"
	"strings"
)

// HNS may show a member otherwise than it was sent, in a way that nobody foresaw. It
// shows when the first read after a write of ours has values that mean nothing to us
// in place of as many that we sent, and nothing else differs. If the next read shows
// the same, and nothing was written in between, that is how HNS spells the set. Once a
// set was read as it was written, whatever comes later is somebody's doing.

// Spelling is how HNS shows members of a set.
type Spelling struct {
	Name  Name
	Sent  []string // values that it does not show, in order
	Shown []string // what it shows in their place, in order
}

// Reading is what is known of how HNS shows a set.
type Reading struct {
	Unread  bool   `json:"unread,omitempty"`  // not read since it was written
	Shown   string `json:"shown,omitempty"`   // digest of the difference that was read last
	Learned bool   `json:"learned,omitempty"` // it is how HNS spells the set
	Doubts  int    `json:"doubts,omitempty"`  // differences so far, each another one
}

// maxDoubts is how many other differences in a row may be a spelling.
const maxDoubts = 3

func (r Reading) doubted() bool { return r.Shown != "" && !r.Learned }

// spell records what is known of how HNS shows the set.
func (c *Cache) spell(s *set, is Reading) {
	if s.reading != is {
		s.reading = is
	}
	list(c.doubted, s, is.doubted())
}

// Doubted reports whether a set was read otherwise than it was written, so that it
// needs another read to tell whether HNS spells it so. Until then it counts as it was
// written.
func (c *Cache) Doubted() bool { return len(c.doubted) > 0 }

// TakeSpellings returns the spellings that were learned since the last call.
func (c *Cache) TakeSpellings() []Spelling {
	out := c.spellings
	c.spellings = nil
	return out
}

// respelled reports whether values that were read are, or may be, what was written in
// HNS's spelling, so that nothing follows from them. It costs their number if the set
// was written since it was last read as it was written.
func (c *Cache) respelled(s *set, values []string) bool {
	was := s.reading
	if !was.Unread && was.Shown == "" {
		return false
	}
	odd, is := c.odd(s, values)
	sum := sha256.Sum256([]byte(strings.Join(odd.Shown, ",") + " for " + strings.Join(odd.Sent, ",")))
	shown := hex.EncodeToString(sum[:8]) // the text may be as long as the set
	switch {
	case is && was.Shown == shown:
		if !was.Learned {
			c.spellings = append(c.spellings, odd)
		}
		c.spell(s, Reading{Shown: shown, Learned: true})
		return true
	case is && !was.Learned && was.Doubts < maxDoubts:
		c.spell(s, Reading{Shown: shown, Doubts: was.Doubts + 1})
		return true
	}
	c.spell(s, Reading{})
	return false
}

// odd returns the members of a set that values show otherwise, and whether that is all
// that differs. What means something to us, as a block does, is no spelling.
func (c *Cache) odd(s *set, values []string) (Spelling, bool) {
	out := Spelling{Name: s.name}
	shown := make(map[string]bool, len(values))
	for _, v := range values {
		key, is := c.read(s, v)
		switch {
		case !is && s.means(v):
			return out, false
		case !is:
			out.Shown = append(out.Shown, v)
		default:
			shown[key] = true
		}
	}
	for _, v := range s.value(actual, members{}).Values {
		if !shown[v] {
			out.Sent = append(out.Sent, v)
		}
		delete(shown, v)
	}
	slices.Sort(out.Shown)
	return out, len(shown) == 0 && len(out.Shown) > 0 && len(out.Sent) == len(out.Shown)
}

// read returns a value as we write it, if it is one that the set may have.
func (c *Cache) read(s *set, v string) (string, bool) {
	if s.nested() {
		return v, c.byID[v] != nil
	}
	a, ok := parseAddr(v)
	return a.String(), ok
}

// means reports whether a value that is none of ours means something: a block or a
// range of addresses, or a set that is no member of this one, but for letter case.
func (s *set) means(v string) bool {
	if !s.nested() {
		_, err := netip.ParsePrefix(v)
		return err == nil || strings.Contains(v, "-")
	}
	for m := range s.members.all(actual) {
		if strings.EqualFold(m.id, v) {
			return false
		}
	}
	return true
}

package dataplane

import (
	"slices"
	"strings"
)

// Spelling is how HNS shows something of ours otherwise than it was sent, and means
// the same. It is learned from reads that agree.
type Spelling struct {
	Kind   string `json:"kind"`   // set, or acl
	Object string `json:"object"` // name of the set, id of the endpoint
	Sent   string `json:"sent"`
	Shown  string `json:"shown"`
}

const (
	keptSpellings = 64
	maxSpelled    = 300 // of a text, in bytes
)

// noteSpellingLocked keeps a spelling; of each object the last one. d.mu must be held.
func (d *Dataplane) noteSpellingLocked(s Spelling) {
	d.spellings = slices.DeleteFunc(d.spellings, func(o Spelling) bool { return o.Kind == s.Kind && o.Object == s.Object })
	d.spellings = append(d.spellings, s)
	if n := len(d.spellings) - keptSpellings; n > 0 {
		d.spellings = slices.Delete(d.spellings, 0, n)
	}
}

// spelledLocked keeps how HNS spells sets. d.mu must be held.
func (d *Dataplane) spelledLocked() {
	for _, s := range d.cache.TakeSpellings() {
		d.noteSpellingLocked(Spelling{
			Kind: driftSet, Object: s.Name.String(), Sent: cutText(s.Sent), Shown: cutText(s.Shown),
		})
	}
}

func cutText(values []string) string {
	text := strings.Join(values, ",")
	return text[:min(len(text), maxSpelled)]
}

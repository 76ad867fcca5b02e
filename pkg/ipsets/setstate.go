package ipsets

import "time"

// SetState is a snapshot of one set.
type SetState struct {
	ID       string
	Name     string
	Nested   bool
	Members  []string // desired, readable, in order, without the permanent one; of an undefined set what HNS has
	Refs     []Ref    // sorted
	InHNS    bool     // as far as known
	Rejected bool     // HNS refuses what is desired
	Dirty    bool     // needed, and HNS has something else
	Fed      bool     // defined, though nobody asks for it: what rules in HNS may see goes on
	// Spare is since when it is in HNS and nobody needs it.
	Spare  time.Time
	Called string // what HNS calls the set, where that is not Name
}

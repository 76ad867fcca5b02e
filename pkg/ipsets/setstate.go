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
	Known    bool     // false: the outcome of a write is not known
	Rejected bool     // HNS refuses what is desired
	Dirty    bool     // needed, and HNS has something else
	Fed      bool     // defined, though nobody asks for it: what rules in HNS may see goes on
	// RefusedOnce are the members that HNS refused together, where others are desired now: it
	// is not asked for these first, should they be desired again. Nil: nothing is remembered.
	RefusedOnce []string
	// Spare is since when it is in HNS and nobody needs it.
	Spare time.Time
	// What a search knows: the group of suspects, 0 for none, whether
	// HNS refuses to take out what has to go, and whether the write of which the outcome
	// is not known is a Remove.
	Group   int
	Clings  bool
	Ending  bool
	Reading Reading
	Called  string // what HNS calls the set, where that is not Name
}

// Snapshot returns all sets, by name. It shares nothing with the Cache.
func (c *Cache) Snapshot() []SetState { return c.Copy().States() }

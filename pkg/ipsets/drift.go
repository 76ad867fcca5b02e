package ipsets

// Drift is a set that HNS holds otherwise than it was known to.
type Drift struct {
	Name     Name
	Needed   bool // a rule needs the set, so that a plan brings it back
	Appeared bool // it was not there
	Gone     bool // it is not there any more
	Retyped  bool // a leaf is a nested set now, or the other way round
	Added    int  // members, of those that the set had not
	Missing  int  // members that it had
}

// any reports whether there is a difference.
func (d Drift) any() bool {
	return d.Appeared || d.Gone || d.Retyped || d.Added+d.Missing > 0
}

// Outstanding reports whether HNS is not as it should be about the set: a rule
// needs it and it differs, or is refused, or nothing is known of it; or nothing
// needs it and it is still there.
func (c *Cache) Outstanding(n Name) bool {
	s := c.byName[n]
	if s == nil {
		return false
	}
	_, pending := c.pending[s]
	_, spare := c.spare[s]
	return pending || spare || s.unknown
}

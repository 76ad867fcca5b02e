package ipsets

// HNS tells sets apart by id, but gives a name once only. A set of a known name
// that the predecessor left under an older id can therefore neither be renamed
// nor be made anew while a rule uses it: the Cache takes over its id instead.
// For the same reason it goes on being called as it was when that is longer than MaxName.

// ID returns the id of a set: the one that it has in HNS, also an older one, or
// the one that it will get.
func (c *Cache) ID(n Name) string {
	if s := c.byName[n]; s != nil {
		return s.id
	}
	return n.ID()
}

// TakeAdopted returns the sets whose id became another since the last call, in
// no order: rules that name them have to be rendered again.
func (c *Cache) TakeAdopted() []Name {
	out := c.adopted
	c.adopted = nil
	return out
}

// adopt returns the entry of a name, with an id that was read from HNS. It
// returns nil when another set has that name, or the id that follows from it, as
// far as known.
func (c *Cache) adopt(n Name, id string) *set {
	s := c.find(n)
	switch {
	case s == nil:
		s = &set{head: head{name: n, id: id}}
		c.byName[n] = s
	case s.id == id:
		return s
	case s.present || s.name != n:
		return nil
	default:
		delete(c.byID, s.id)
		s.id = id
		s.addrs.forgive() // what was refused was another set
		s.members.forgive()
		c.adopted = append(c.adopted, n)
	}
	c.byID[id] = s
	return s
}

// call records how HNS calls a set: builds before MaxName gave names whole, and HNS
// refuses to rename. Whatever else a set of ours is called is somebody else's doing.
func (c *Cache) call(s *set, text string) {
	called := ""
	if s.name.known() && text == s.name.String() && text != s.name.Called() {
		called = text
	}
	if s.called != called {
		s.called = called
	}
}

// taken reports whether a name, or the id that follows from it, is another
// entry's.
func (c *Cache) taken(n Name, s *set) bool {
	other := c.find(n)
	return other != nil && other != s
}

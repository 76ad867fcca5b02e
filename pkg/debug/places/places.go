// Package places bounds how many requests are in progress at once: of all clients
// together, and of each one, so that a client that sends many waits for itself.
package places

// Places are places for requests. They are not safe for concurrent use; whoever has
// them locks. They remember the clients that have one, so their number bounds that.
type Places[Client comparable] struct {
	most, ofOne int
	taken       int
	by          map[Client]int // a client without a place has no entry
}

// New returns so many places, of which one client may have ofOne at a time.
func New[Client comparable](most, ofOne int) *Places[Client] {
	return &Places[Client]{most: most, ofOne: ofOne, by: map[Client]int{}}
}

// Take takes a place for a client, if one is free for it. Free gives it back.
func (p *Places[Client]) Take(client Client) bool {
	if p.taken >= p.most || p.by[client] >= p.ofOne {
		return false
	}
	p.taken++
	p.by[client]++
	return true
}

// Free gives one place of a client back.
func (p *Places[Client]) Free(client Client) {
	p.taken--
	if p.by[client]--; p.by[client] == 0 {
		delete(p.by, client)
	}
}

package state

import "time"

// Progress is where a transaction is. A zero one says that none runs.
type Progress struct {
	// Doing says in a few words on what it is, printable in one line.
	Doing string `json:"doing"`
	// Since is when it last got on: a piece of work, or a call of HNS, began or ended.
	Since time.Time `json:"since"`
	// InHNS: a call of HNS has not returned. How long it may take is the client's to
	// say.
	InHNS bool `json:"inHNS,omitempty"`
}

// Piece is work between two moments at which a transaction got on.
type Piece struct {
	Doing string        `json:"doing"`
	Took  time.Duration `json:"took"` // nanoseconds
}

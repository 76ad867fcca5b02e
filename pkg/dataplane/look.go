package dataplane

import "time"

// Look says what an observation reads of HNS. The zero Look reads nothing.
type Look struct {
	// Enumerate asks for the GUIDs of all endpoints: which came, and which are gone.
	Enumerate bool `json:"enumerate,omitempty"`
	// Sets reads the network with all our sets.
	Sets bool `json:"sets,omitempty"`
	// Endpoints are read one by one, by their GUIDs.
	Endpoints []string `json:"endpoints,omitempty"`
	// All reads every endpoint that is known or enumerated.
	All bool `json:"all,omitempty"`
}

// Everything looks at all there is.
func Everything() Look { return Look{Enumerate: true, Sets: true, All: true} }

// NextLook returns what is to be observed next, and when: in the past for at once.
// It is asked again after each observation and each transaction.
func (d *Dataplane) NextLook() (Look, time.Time) {
	return Everything(), d.cfg.Now().Add(5 * time.Minute)
}

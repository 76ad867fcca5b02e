package hns

// CodeClass is what an answer of HNS with a code says of the call.
type CodeClass uint8

// The classes of codes.
const (
	// Unlisted: nothing is known of what the code says, so a read has to tell.
	Unlisted CodeClass = iota
	// BrokeOff: the call did not get through to its end; anything may be done.
	BrokeOff
	// RefusesContent: HNS does not take what the request contains.
	RefusesContent
	// RefusesEndpoint: this endpoint takes no policies, whatever they are.
	RefusesEndpoint
	// SaysMissing: something is not there: an endpoint, a network, a set.
	SaysMissing
	// SaysExists: what is added is there already.
	SaysExists
	// SaysUsed: what is removed is still referenced.
	SaysUsed
)

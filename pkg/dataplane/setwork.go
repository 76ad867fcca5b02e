package dataplane

import (
	"github.com/winnpm/winnpm/pkg/backoff"
	"github.com/winnpm/winnpm/pkg/ipsets"
)

// setWork is what is remembered of requests for sets that HNS did not do.
type setWork struct {
	due      bool                           // something may be written at once, in the next transaction
	held     bool                           // members wait to join sets
	refused  map[ipsets.Name]*backoff.Again // needed sets that HNS refuses
	removals map[ipsets.Name]*removal
	read     backoff.Retry // of sets that nobody needs and of which a write is in doubt
}

// removal is a set that HNS did not remove when it was asked to.
type removal struct {
	backoff.Again
	alone bool // HNS rejected a request with it, so it is asked for alone
}

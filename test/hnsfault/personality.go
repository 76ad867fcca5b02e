package hnsfault

import (
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"time"

	"github.com/winnpm/winnpm/pkg/hns"
)

// Personality says how an HNS differs from the strict simulator in what nobody
// documents: a node may be like any of them. The zero value is the simulator as
// it is. A personality is about what HNS answers and shows, never about packets:
// a rule means the same under each of them.
//
// The hand of others (PutSet, SetPolicies, CreateEndpoint) is not subject to it,
// and the instruments (Endpoint, Sets, Dump, Trace, Watch) show what is stored.
type Personality struct {
	// Seed is where it was drawn from, and where its chances come from.
	Seed uint64
	// Codes are the HRESULTs for what every HNS refuses; one that is missing is as
	// usual. The class of the error follows from the code.
	Codes map[Answer]uint32
	// Refuses is what this HNS refuses besides, for good.
	Refuses []Refusal
	// Spelling is how it shows what was written.
	Spelling Spelling
	// Endpoints is how they come and go.
	Endpoints EndpointHabits
	// Half are writes that are done by halves, rounded down, and then fail.
	Half Chance
	// Ignored are writes that succeed and do nothing.
	Ignored Chance
	// Latency is what one call of a DLL takes; a request takes it once for each of
	// its calls. It is waited for with a timer: use testing/synctest.
	Latency time.Duration
	// Foreign are the policies of an endpoint that is created without any; nil:
	// Options.Foreign.
	Foreign []hns.EndpointPolicy
}

// Answer is something that every HNS refuses, and for which it has a code.
type Answer uint8

// The answers.
const (
	BadSet          Answer = iota // a malformed set, or one that RejectSet refuses
	BadRule                       // a malformed rule, or one that RejectACL refuses
	SetExists                     // Add of a set that is there
	SetMissing                    // Remove of a set that is not there
	SetInUse                      // Remove of a set that something names
	NameMissing                   // a rule or a nested set names a set that is not there
	EndpointMissing               // the endpoint is gone
	EndpointClosed                // it is not attached, or remote
	answers                       // how many there are
)

// Trait is something that a particular HNS refuses.
type Trait uint8

// The traits. Those with an N refuse what is greater.
const (
	PortRanges    Trait = iota // rules with a range of ports
	PortLists                  // rules with several ports
	SCTP                       // rules for protocol 132
	HostRules                  // rules of type Host
	WideBlocks                 // rules with a literal block of eight bits or fewer, the whole world too
	Literals                   // N literals in one field of a rule
	Braces                     // sets with a brace in their name
	NameLength                 // N bytes in a set's name
	NestedMembers              // N members of a nested set
	SetValues                  // N values of an IPSET
	SetCount                   // N sets in the network
	ACLCount                   // N rules on an endpoint, those of others too
	RequestBytes               // N bytes of a request's content
	ForeignExtras              // an Update with another owner's rule that has an undocumented field
	traits                     // how many there are
)

// Refusal is a trait with the code that HNS answers with.
type Refusal struct {
	What Trait
	N    int
	Code uint32 // 0: as for other malformed content
}

// Chance is something that happens to a call now and then, and no more than so
// many times, so that every history comes to its end.
type Chance struct {
	P     float64 // of each call that it may happen to
	Times int     // at most
	Code  uint32  // with which the call fails, if it does; 0: E_FAIL
}

// EndpointHabits says how endpoints come and go.
type EndpointHabits struct {
	// Late: a new endpoint is left out of the first Late enumerations.
	Late int
	// Vanish: a read says "not found" of one that is there.
	Vanish Chance
	// Twice: each so many endpoints that are created with an address there is
	// another one with the same addresses, of its own GUID, that is deleted with it.
	Twice int
	// Unread: one in so many endpoints, of every network, cannot be read.
	Unread int
	// UnreadFor is for how many reads; negative: for good.
	UnreadFor int
	// UnreadCode is the answer then; 0: HCN_E_OBJECT_USED_AFTER_UNLOAD.
	UnreadCode uint32
	// Early: one that is created and not attached yet takes rules, as hcsshim's own
	// tests have it (hcn/hcnendpoint_test.go, TestApplyPolicyOnEndpoint).
	Early bool
	// Others: those of other networks are enumerated too.
	Others bool
}

// odd is the state of the current personality. Its fields are guarded by Sim.mu.
type odd struct {
	Personality
	rng     *rand.Rand
	reads   int            // for what changes at each read
	created int            // endpoints with an address
	late    map[string]int // enumerations that an endpoint will be left out of
	unread  map[string]int // failed reads of an endpoint
	// What is left of the chances.
	halves, ignored, vanishes int
}

// SetPersonality gives the node another personality; the zero value lifts it.
// What is stored stays, and what is there already is not late.
func (s *Sim) SetPersonality(p Personality) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setPersonality(p)
}

// setPersonality is SetPersonality with s.mu held, or before there is anybody else.
func (s *Sim) setPersonality(p Personality) {
	s.odd = nil
	if reflect.ValueOf(p).IsZero() {
		return
	}
	p.Codes, p.Refuses = maps.Clone(p.Codes), slices.Clone(p.Refuses)
	if p.Foreign != nil { // none at all is not the same as the usual ones
		p.Foreign = clonePolicies(p.Foreign)
	}
	s.odd = &odd{
		Personality: p,
		rng:         rand.New(rand.NewPCG(p.Seed, 1)),
		late:        map[string]int{},
		unread:      map[string]int{},
		halves:      p.Half.Times,
		ignored:     p.Ignored.Times,
		vanishes:    p.Endpoints.Vanish.Times,
	}
}

// happens decides a chance of which left are left.
func (o *odd) happens(c Chance, left *int) bool {
	if *left <= 0 || o.rng.Float64() >= c.P {
		return false
	}
	*left--
	return true
}

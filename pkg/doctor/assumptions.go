package doctor

import "slices"

// Assumption is one thing that WinNPM takes for granted of HNS and of the node.
type Assumption struct {
	ID    string `json:"id"`
	What  string `json:"what"`
	Phase Phase  `json:"phase"` // the first that can tell
}

// Phase is a part of the examination.
type Phase string

// The phases. Nothing asks for those after OwnNetwork: what they would tell is unknown.
const (
	ReadOnly   Phase = "read only"   // reads what is there
	OwnNetwork Phase = "own network" // writes to a network of the doctor's own
	Packets    Phase = "packets"     // sends packets between endpoints of its own
	Scale      Phase = "scale"       // doubles everything until HNS refuses
	Restart    Phase = "restart"     // restarts HNS
	Elsewhere  Phase = "elsewhere"   // no probe of HNS tells: a cluster or a container does
)

// Assumptions are all of them. Their names are those of docs/windows.md.
func Assumptions() []Assumption {
	return slices.Concat(ofCalls(), ofSets(), ofRules(), ofEndpoints())
}

// ofCalls are those of the calls and their codes.
func ofCalls() []Assumption {
	return []Assumption{
		{"W1", "HNS takes the JSON that WinNPM sends", OwnNetwork},
		{"W2", "<, > and & need no escape in a name", OwnNetwork},
		{"W3", "rules of others can be sent back as HNS shows them", OwnNetwork},
		{"W4", "a rule is shown with Scope and Type beside what was sent", ReadOnly},
		{"W5", "a rule is shown with the Id that it was given", OwnNetwork},
		{"W6", "the texts of a rule come back character by character", OwnNetwork},
		{"W7", "the values of a set come back as they were sent", OwnNetwork},
		{"W8", "Priority is a number, and Settings is an object", ReadOnly},
		{"W9", "GUIDs, texts and results pass as hcsshim passes them", ReadOnly},
		{"W10", "no thread needs COM", ReadOnly},
		{"W11", "enumerations take the filters Name, ID, State and VirtualNetwork", ReadOnly},
		{"W12", "the older API tells the version of HNS", ReadOnly},

		{"C1", "a refusal of what a request contains has a code that says so", OwnNetwork},
		{"C2", "every other code is a matter of looking again", OwnNetwork},
		{"C3", "an endpoint that is not attached, or remote, has a code of its own", OwnNetwork},
		{"C4", "an endpoint that is gone is 0x803b0002 or 0x80070490", OwnNetwork},
		{"C5", "a network that is gone is 0x803b0001", OwnNetwork},
		{"C6", "a service that stops breaks the call off", Restart},
		{"C7", "without rights every call is refused, and nothing is half shown", ReadOnly},
	}
}

// ofSets are those of ip sets.
func ofSets() []Assumption {
	return []Assumption{
		{"S1", "a comma between Ids of sets is AND", Packets},
		{"S2", "with sets Local is the source and Remote the destination", Packets},
		{"S3", "an empty set matches nothing", Packets},
		{"S4", "an empty nested set matches everything", Packets},
		{"S5", "a nested set of one empty set matches nothing", Packets},
		{"S6", "rules see a new member without being written", Packets},
		{"S7", "a nested set has sets of one level, by their Ids", OwnNetwork},
		{"S8", "HNS 13 has nested sets", OwnNetwork},
		{"S9", "an update changes the sets that it has and no other", OwnNetwork},
		{"S10", "an update of a set that is not there does nothing, and says nothing", OwnNetwork},
		{"S11", "an add of a set that is there is refused as such", OwnNetwork},
		{"S12", "a remove is refused of a set that is not there, and of one in use", OwnNetwork},
		{"S13", "a request for several sets is done as a whole or not at all", OwnNetwork},
		{"S14", "two sets have two names, and a set keeps its name", OwnNetwork},
		{"S15", "a name of a set may be long and have any character", OwnNetwork},
		{"S16", "sets, members and bytes of a request have no limit that matters", Scale},
		{"S17", "an Id of thirty letters and digits is one", OwnNetwork},
		{"S18", "sets may be lost with the service, or not", Restart},
	}
}

// ofRules are those of rules.
func ofRules() []Assumption {
	return []Assumption{
		{"A1", "the lower number wins, from 1 to 65535", Packets},
		{"A2", "of two rules with one number either may win", Packets},
		{"A3", "a first rule makes the rest denied", Packets},
		{"A4", "our 65499 beats the CNI's 65500", Packets},
		{"A5", "with addresses Remote is the peer, and a comma is OR", Packets},
		{"A6", "a rule with sets and addresses in one field is refused", OwnNetwork},
		{"A7", "blocks of any length are taken, 0.0.0.0/0 too", OwnNetwork},
		{"A8", "a rule takes 4000 addresses", OwnNetwork},
		{"A9", "a rule takes lists and ranges of ports", OwnNetwork},
		{"A10", "a rule takes SCTP with ports", OwnNetwork},
		{"A11", "a rule without protocol is for all", Packets},
		{"A12", "a rule with two protocols is refused", OwnNetwork},
		{"A13", "ports without a protocol of ports are refused", OwnNetwork},
		{"A14", "rules of type Switch are enough, or need a Host pair", Packets},
		{"A15", "a rule without RuleType is of type Switch", OwnNetwork},
		{"A16", "a Host rule has no priority", OwnNetwork},
		{"A17", "an update of an endpoint replaces all its policies", OwnNetwork},
		{"A18", "an update with nothing clears an endpoint", OwnNetwork},
		{"A19", "an update is one step for packets", Packets},
		{"A20", "an add appends and keeps what is there twice", OwnNetwork},
		{"A21", "an update of equal meaning cuts no open connection", Packets},
		{"A22", "replies need no rule", Packets},
		{"A23", "rules and bytes of an endpoint have no limit that matters", Scale},
		{"A24", "a rule with a set that is not there is refused", OwnNetwork},
		{"A25", "an Id of a rule may be long and have dots", OwnNetwork},
		{"A26", "packets to a service are judged with the pod's address", Elsewhere},
		{"A27", "TierAcl and NetworkACL of others do not interfere", ReadOnly},
		{"A28", "a rule works seconds after its write", Packets},
		{"A29", "a rule for ::/0 is for IPv6, and for no IPv4", Packets},
	}
}

// ofEndpoints are those of endpoints, the service, and the node.
func ofEndpoints() []Assumption {
	return []Assumption{
		{"E1", "endpoints of pods are in state 2 or 3", ReadOnly},
		{"E2", "an endpoint that is not attached takes no rules", OwnNetwork},
		{"E3", "flag 1 marks an endpoint of another node", ReadOnly},
		{"E4", "every endpoint that is listed can be read", ReadOnly},
		{"E5", "two endpoints may have one address", OwnNetwork},
		{"E6", "an endpoint is there before its pod's address is known", Elsewhere},
		{"E7", "a network keeps its Id", Restart},
		{"E8", "a new service of HNS is a new process", Restart},
		{"E9", "endpoints survive the service", Restart},
		{"E10", "a call ends within two minutes", Scale},
		{"E11", "one call at a time is fast enough", Scale},

		{"N1", "the path of the mount point is replaced in a command", Elsewhere},
		{"N2", "relative paths are below the mount point", Elsewhere},
		{"N3", "the token is below the mount point, or at its usual place", Elsewhere},
		{"N4", "a stop of the container reaches the program", Elsewhere},
		{"N5", "the base image needs nothing", Elsewhere},
		{"N6", "limits of memory hold", Elsewhere},
		{"N7", "two containers see one folder of Windows", Elsewhere},
		{"N8", "ports can be forwarded to the container", Elsewhere},
		{"N9", "a node outside of AKS needs no registry keys", ReadOnly},
	}
}

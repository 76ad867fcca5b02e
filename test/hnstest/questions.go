package hnstest

import (
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
)

// Question is one test of an assumption about HNS.
type Question struct {
	Name string `json:"question"`
	// Assumptions are the codes in docs/windows.md that the answer decides. It is empty if the
	// question is about hns.Client itself.
	Assumptions string `json:"assumptions,omitempty"`
	Source      string `json:"source"`  // document or program that the assumption is based on
	IfWrong     string `json:"ifWrong"` // effect on a node if the assumption is wrong
	Phase       Phase  `json:"phase"`

	ask func(*bench)
}

// Phase is the kind of access that a question needs to a node.
type Phase string

// The phases.
const (
	ReadOnly   Phase = "read only"   // reads existing objects
	OwnNetwork Phase = "own network" // writes to the suite's own network
	Limits     Phase = "limits"      // writes the largest requests that WinNPM may send, to the same network
)

// Sources of more than one question.
const (
	acn     = "Azure/azure-container-networking relies on it"
	schema  = "Microsoft's HCN API reference"
	hcsshim = "microsoft/hcsshim"
	calico  = "Calico for Windows relies on it"
	guess   = "nobody: a guess"
	own     = "the contract of hns.Client"
)

// Consequences of more than one question.
const (
	retried    = "the write fails and is tried again"
	leftOut    = "the rule is left out, and its policy stays closed"
	rewritten  = "the agent takes it for somebody else's write, and writes again and again"
	wrongCode  = "the refused part blocks the writes of others until it is known"
	unlisted   = "a new pod is not found, and stays open"
	stateWrong = "the agent's own state is wrong"
)

// Questions returns the table of all questions, in the order in which they are asked.
func Questions() []Question {
	return slices.Concat(aboutSets(), aboutRules(), aboutEndpoints(), aboutLimits())
}

func aboutSets() []Question {
	const (
		closed = "the set is refused, and its rules stay closed"
		unread = "sets differ from what the agent knows until they are read"
	)
	named := func(name string) func(*bench) {
		p := leaf("web", "10.90.0.4")
		p.Name = "hnstest-" + name
		return acceptsSets(p)
	}
	type sets = []hns.SetPolicy
	web, db, odd, group := leaf("web", "10.90.0.4"), leaf("db"), leaf("db", "everything"), list("group", leaf("web"))
	unfit := sets{list("group", web, leaf("gone"))}
	return []Question{
		{"sets are added, updated and removed, each by itself", "W1 W7 S7 S8 S9", acn, retried, OwnNetwork, setLifeCycle},
		{"an update of a missing set is ignored", "S10", acn, wrongCode, OwnNetwork, updateOfMissing},
		{"a set cannot be added twice", "S11", guess, "nothing: a set is read before it is written", OwnNetwork, rejects(hns.ErrAlreadyExists, hns.Add, sets{leaf("web", "10.90.0.5")}, web)},
		{"a missing set cannot be removed", "S12", acn, retried, OwnNetwork, rejects(hns.ErrNotFound, hns.Remove, sets{web})},
		{"a list needs its members", "S7", acn, stateWrong, OwnNetwork, rejects(hns.ErrNotFound, hns.Add, unfit, web)},
		{"a list that is changed needs its members", "S7", acn, stateWrong, OwnNetwork, rejects(hns.ErrNotFound, hns.Update, unfit, web, group)},
		{"a set in a list cannot be removed", "S12", acn, stateWrong, OwnNetwork, rejects(hns.ErrInUse, hns.Remove, sets{web}, web, group)},
		{"a set in a rule cannot be removed", "S12", acn, stateWrong, OwnNetwork, removeOfSetInRule},
		{"a set of a type that does not exist is refused", "C1", schema, wrongCode, OwnNetwork, rejects(hns.ErrInvalid, hns.Add, sets{{ID: prefix + "x", Name: "hnstest-x", Type: "LIST"}})},
		{"a set with a value that is no address is refused", "C1", schema, wrongCode, OwnNetwork, rejects(hns.ErrInvalid, hns.Add, sets{odd})},
		{"a refused add of sets does nothing", "S13", guess, unread, OwnNetwork, rejects(hns.ErrAlreadyExists, hns.Add, sets{db, web, leaf("last")}, web)},
		{"a refused update of sets does nothing", "S13", guess, unread, OwnNetwork, rejects(hns.ErrInvalid, hns.Update, sets{leaf("web", "10.90.0.9"), odd}, web, db)},
		{"a refused removal of sets does nothing", "S13", guess, unread, OwnNetwork, rejects(hns.ErrInUse, hns.Remove, sets{db, web}, web, db, group)},
		{"a name may have <, > and &", "W2", schema, closed, OwnNetwork, named("<a>&b")},
		{"a name may have any sign", "S15", guess, closed, OwnNetwork, named(`x{app in (a,b),!tier,role!=db}/y = "z" [%d] \ ' #;`)},
		{"a name may have 4096 characters", "S15", guess, closed, OwnNetwork, named(strings.Repeat("n", 4096-len("hnstest-")))},
		{"an Id may have 30 letters and digits", "S17", acn, "no set is taken", OwnNetwork, acceptsSets(leaf("1a2b3c4d5e6f", "10.90.0.4"))},
	}
}

func aboutRules() []Question {
	ports := func(local string) func(*hns.ACL) { return func(a *hns.ACL) { a.LocalPorts = local } }
	from := func(remote string) func(*hns.ACL) { return func(a *hns.ACL) { a.RemoteAddresses = remote } }
	protocol := func(number, local string) func(*hns.ACL) {
		return func(a *hns.ACL) { a.Protocols, a.LocalPorts = number, local }
	}
	kind := func(is hns.RuleType, priority uint16) func(*hns.ACL) {
		return func(a *hns.ACL) { a.RuleType, a.Priority = is, priority }
	}
	return []Question{
		{"added rules are appended, and there twice if they were there", "A20 W5", acn, rewritten, OwnNetwork, addAppends},
		{"a rule needs its sets", "A24", guess, "nothing: sets come first", OwnNetwork, rejectsRules(hns.ErrNotFound, hns.KindSet, leaf("gone").ID, allowFrom("two", leaf("gone")))},
		{"a malformed rule is refused", "C1 C2", hcsshim + "#1059", wrongCode, OwnNetwork, rejectsRules(hns.ErrInvalid, hns.KindACL, badRule().ID, badRule())},
		{"nothing is done of a request with a malformed rule", "C1 C2", hcsshim + "#1059", wrongCode, OwnNetwork, rejectsRules(hns.ErrInvalid, hns.KindACL, "one of 3", allowFrom("two", leaf("web")), badRule(), allowFrom("three", leaf("web")))},
		{"replacing replaces everything", "A17 A18", acn, "rules pile up, or those of others are lost", OwnNetwork, replaceReplaces},
		{"foreign policies survive byte for byte", "W3", guess, "every edit of a policy on that endpoint fails", OwnNetwork, foreignSurvives},
		accepts("addresses and ports in the order of the request", "W6", guess, rewritten, func(a *hns.ACL) {
			a.RemoteAddresses, a.LocalPorts = "10.9.0.1,10.9.1.0/24,10.9.0.2", "443,80"
		}),
		accepts("Block, and nothing that it is limited to", "W6 W8", guess, rewritten, func(a *hns.ACL) {
			*a = hns.ACL{ID: a.ID, Action: hns.Block, Direction: hns.In, RuleType: hns.Switch, Priority: hns.PriorityBlock}
		}),
		accepts("UDP with ports", "W6 W8", guess, rewritten, protocol("17", "53")),
		accepts("two sets", "W6 W8", guess, rewritten, func(a *hns.ACL) { a.LocalAddresses = leaf("ns").ID + "," + leaf("web").ID }),
		accepts("the direction Out", "W6 W8", guess, rewritten, func(a *hns.ACL) {
			a.Direction, a.RemoteAddresses, a.LocalPorts, a.RemotePorts = hns.Out, leaf("web").ID, "", "80,443,8000-8080"
		}),
		accepts("ports and ranges of ports", "A9", calico, leftOut, ports("80,443,1000-2000")),
		accepts("Allow of every protocol", "W6 W8", guess, rewritten, protocol("", "")),
		accepts("all ports", "A9", calico, leftOut, ports("1-65535")),
		accepts("ICMP", "W1", acn, leftOut, protocol("1", "")),
		accepts("SCTP with ports", "A10", calico, leftOut, protocol("132", "9899")),
		accepts("0.0.0.0/0", "A7", guess, leftOut, from("0.0.0.0/0")),
		accepts("everything but a block", "A7", guess, leftOut, from("0.0.0.0/5,8.0.0.0/7,11.0.0.0/8,12.0.0.0/6,16.0.0.0/4,32.0.0.0/3,64.0.0.0/2,128.0.0.0/1")),
		accepts("blocks of every length", "A7", guess, leftOut, from(everyLength())),
		accepts("4000 addresses", "A8", calico, leftOut, from(manyAddresses(hns.MaxAddressesPerACL))),
		accepts("::/0", "A29", guess, leftOut, func(a *hns.ACL) { a.Action, a.RemoteAddresses = hns.Block, "::/0" }),
		accepts("the first priority", "A1", hcsshim+"#1059", leftOut, kind(hns.Switch, 1)),
		accepts("the last priority", "A1", hcsshim+"#1059", leftOut, kind(hns.Switch, 65535)),
		accepts("the type Host and no priority", "A16", hcsshim, "base rules are missing on Calico", kind(hns.Host, 0)),
		accepts("an Id of 200 characters with dots", "A25", guess, "no rule is taken", func(a *hns.ACL) {
			a.ID = hns.ACLIDPrefix + "hnstest." + strings.Repeat("namespace.", 8) + strings.Repeat("policy", 17)
		}),
	}
}

func aboutEndpoints() []Question {
	return []Question{
		{"a missing endpoint is told apart", "C4", acn, unlisted, OwnNetwork, missingEndpoint},
		{"every endpoint that is listed can be read", "E4 A27 W10", guess, unlisted, ReadOnly, everyEndpointReads},
		{"only attached endpoints are enumerated", "E1 W11", acn, unlisted, OwnNetwork, enumeration},
		{"an endpoint that is not attached takes no rules", "E2 C3", guess, "nothing: the simulator is stricter than HNS", OwnNetwork, detachedRejects},
		{"two endpoints may have one address", "E5", acn, "nothing", OwnNetwork, sharedAddress},
		{"an endpoint of another node is told apart", "E3", hcsshim, "the agent writes to an endpoint that is not here", OwnNetwork, elsewhere},
		{"every address of an endpoint is read", "", own, "a pod is found by one address only", OwnNetwork, severalAddresses},
		{"what is held behaves the same", "W9", own, stateWrong, OwnNetwork, held},
		{"writes read back as the version that was asked for", "W5 W6", guess, rewritten, OwnNetwork, writesHaveVersions},
	}
}

func aboutLimits() []Question {
	const stalls = "the write fails, and the pods it is for keep their old rules"
	return []Question{
		{"a network takes 4096 sets", "S16 E10", guess, stalls, Limits, acceptsSets(leaves(4096)...)},
		{"a set takes 8192 members, and a list 1024", "S16 E10", guess, stalls, Limits, acceptsSets(largeSets()...)},
		{"an endpoint takes 2000 rules", "A23 E10", guess, stalls, Limits, manyRules(2000, "10.9.0.1")},
		{"an endpoint takes 640 kB of rules", "A23 E10", guess, stalls, Limits, manyRules(60, manyAddresses(1000))},
	}
}

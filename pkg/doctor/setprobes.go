package doctor

import (
	"fmt"
	"strings"
)

// Sets of the probes. Their Ids are spelled as those of WinNPM.
const (
	setA    = hereID + "0000000000000000000a"
	setB    = hereID + "0000000000000000000b"
	setList = hereID + "0000000000000000000l"
	setOver = hereID + "0000000000000000000o"
	setGone = hereID + "0000000000000000000x"
	hereID  = "azure-npm-"
)

// leafOf is a set of addresses whose name is that of its Id.
func leafOf(id, values string) string { return setPolicy(id, "doctor-"+id, leaf, values) }

// listOf is a set of sets.
func listOf(id, members string) string { return setPolicy(id, "doctor-"+id, nested, members) }

func add(policies ...string) step    { return step{"Add", strings.Join(policies, ",")} }
func update(policies ...string) step { return step{"Update", strings.Join(policies, ",")} }
func remove(policies ...string) step { return step{"Remove", strings.Join(policies, ",")} }

const twoAddresses = "10.9.0.1,10.9.0.2"

// setProbes ask about ip sets, each on a network without any.
func setProbes() []probe {
	there := []step{add(leafOf(setA, twoAddresses))}
	both := []step{add(leafOf(setA, twoAddresses), leafOf(setB, "10.9.0.3"))}
	list := []step{add(leafOf(setA, twoAddresses)), add(listOf(setList, setA))}
	probes := []probe{
		{name: "a set", settles: "W7", step: add(leafOf(setA, twoAddresses)), want: taken},
		{name: "a set without values", settles: "W7", step: add(leafOf(setA, "")), want: taken},
		{name: "blocks in a set", settles: "W7", step: add(leafOf(setA, "10.9.1.0/24,10.9.0.0/16,0.0.0.0/1,128.0.0.0/1,10.9.0.9/32")), want: taken},
		{name: "an Id of thirty letters and digits", settles: "S17", step: add(leafOf(hereID+"1a2b3c4d5e6f7g8h9i0j", twoAddresses)), want: taken},
		{name: "several sets in a request", settles: "W1", step: add(leafOf(setA, twoAddresses), leafOf(setB, "10.9.0.3")), want: taken},
		{name: "a nested set", settles: "S7", before: both, step: add(listOf(setList, setA+","+setB)), want: taken, look: seesNested},
		{name: "a nested set with an empty one", settles: "S7", before: []step{add(leafOf(setA, ""))}, step: add(listOf(setList, setA)), want: taken},
		{name: "a nested set without members", before: there, step: add(listOf(setList, "")), want: anything},
		{name: "a nested set of a nested set", settles: "S7", before: list, step: add(listOf(setOver, setList)), want: refused},
		{name: "a nested set of itself", before: there, step: add(listOf(setList, setList)), want: refused},
		{name: "a member that is not there", before: there, step: add(listOf(setList, setGone)), want: absent},

		{name: "update of a set", settles: "S9", before: both, step: update(leafOf(setA, "10.9.0.9")), want: taken, look: keeps(leafOf(setB, "10.9.0.3"))},
		{name: "update of a member", settles: "W1", before: list, step: update(leafOf(setA, "10.9.0.9")), want: taken, look: keeps(listOf(setList, setA))},
		{name: "update of a set that is not there", settles: "S10", before: there, step: update(leafOf(setGone, "10.9.0.9")), want: done, look: lacks("S10", setGone)},
		{name: "add of a set that is there", settles: "S11", before: there, step: add(leafOf(setA, "10.9.0.9")), want: exists, look: keeps(leafOf(setA, twoAddresses))},
		{name: "remove of a set", settles: "W1", before: both, step: remove(leafOf(setA, twoAddresses)), want: done, look: lacks("W1", setA)},
		{name: "remove of a set that is not there", settles: "S12", before: there, step: remove(leafOf(setGone, "10.9.0.1")), want: absent},
		{name: "remove of a member", settles: "S12", before: list, step: remove(leafOf(setA, twoAddresses)), want: inUse},
		{name: "one bad set among good ones", settles: "S13", step: add(leafOf(setA, twoAddresses), leafOf(setB, "nonsense")), want: refused, look: lacks("S13", setA)},
		{name: "one add of several is there already", settles: "S11", before: there, step: add(leafOf(setB, "10.9.0.3"), leafOf(setA, twoAddresses)), want: exists, look: lacks("S13", setB)},
		{name: "two sets of one name", settles: "S14", before: there, step: add(setPolicy(setB, "doctor-"+setA, leaf, "10.9.0.3")), want: refused},
		{name: "another name for a set", settles: "S14", before: there, step: update(setPolicy(setA, "doctor-renamed", leaf, twoAddresses)), want: refused},
		{name: "another type for a set", before: there, step: update(listOf(setA, "")), want: refused},
		{name: "one Id twice in a request", step: add(leafOf(setA, twoAddresses), leafOf(setA, "10.9.0.3")), want: refused},
		{name: "two types in a request", before: there, step: add(leafOf(setB, "10.9.0.3"), listOf(setList, setA)), want: refused},

		{name: "a request without sets", step: add(), want: refused},
		{name: "an unknown request", step: step{"Merge", leafOf(setA, twoAddresses)}, want: refused},
		{name: "an unknown type of set", step: add(setPolicy(setA, "doctor-"+setA, "PORTSET", twoAddresses)), want: refused},
		{name: "an Id with a comma", step: add(leafOf(hereID+"a,b", twoAddresses)), want: refused},
		{name: "a set without a name", step: add(setPolicy(setA, "", leaf, twoAddresses)), want: refused},
		{name: "a value that is no address", step: add(leafOf(setA, "10.9.0.1,nonsense")), want: refused},
		{name: "an IPv6 address in a set", step: add(leafOf(setA, "fd00::1")), want: refused},
		{name: "an IPv6 block in a set", step: add(leafOf(setA, "fd00::/64")), want: refused},
		{name: "blanks between values", step: add(leafOf(setA, "10.9.0.1, 10.9.0.2")), want: anything},
		{name: "one value twice", step: add(leafOf(setA, "10.9.0.1,10.9.0.1")), want: anything},
		{name: "an Id in capitals", before: there, step: update(leafOf(strings.ToUpper(setA), "10.9.0.9")), want: anything},
		{name: "Refresh of a set", before: there, step: step{"Refresh", leafOf(setA, twoAddresses)}, want: anything},
		{name: "a NetworkACL", step: add(`{"Type":"NetworkACL","Settings":{"Protocols":"6","Action":"Allow","Direction":"In","LocalPorts":"80","Priority":300}}`), want: anything},
	}
	return append(probes, nameProbes()...)
}

// nameProbes ask which names a set may have.
func nameProbes() []probe {
	named := func(what, settles, name string) probe {
		return probe{name: what, settles: settles, step: add(setPolicy(setA, name, leaf, twoAddresses)), want: taken}
	}
	probes := []probe{
		named("<, > and & in a name", "W2", "doctor-<a>&b"),
		named("signs in a name", "S15", `podselector-ns-x{app in (a,b),!tier,role!=db}/y = "z" [%d] \ ' #;`),
		named("letters of all the world in a name", "S15", "doctor-grüße-世界-🚀"),
	}
	for _, n := range []int{128, 255, 256, 390, 1024, 4096} {
		probes = append(probes, named(fmt.Sprintf("a name of %d characters", n), "S15", "doctor-"+strings.Repeat("n", n-len("doctor-"))))
	}
	return probes
}

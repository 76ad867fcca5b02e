package doctor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
)

// compare says how two answers to one request differ; empty: they are equal. Of the doctor's
// own objects, which are two, only what it wrote is compared.
func compare(ours, theirs *Record, own bool) string {
	if theirs == nil {
		return ""
	}
	switch {
	case (ours.Error == "") != (theirs.Error == ""):
		return "ours " + ours.said() + ", theirs " + theirs.said()
	case ours.Error != "":
		return ""
	case ours.code != theirs.code && !bothMissing(ours, theirs):
		return fmt.Sprintf("ours %s (%s), theirs %s (%s)", ours.said(), meaning(ours), theirs.said(), meaning(theirs))
	case ours.ok() != theirs.ok():
		return "ours " + ours.said() + ", theirs " + theirs.said()
	case !ours.ok():
		return ""
	}
	switch {
	case strings.HasPrefix(ours.Export, "HcnEnumerate"):
		return compareLists(ours.Output, theirs.Output)
	case strings.HasPrefix(ours.Export, "HcnQuery"):
		return compareObjects(ours, theirs, own)
	case ours.Export == "HNSCall":
		return compareJSON("the answer", json.RawMessage(ours.Output), json.RawMessage(theirs.Output))
	}
	return ""
}

// meaning is what the agent takes an answer for, in a word.
func meaning(r *Record) string {
	if r.ok() {
		return "done"
	}
	return classNames[r.class()]
}

// classNames are those of result classes.
var classNames = map[hns.CodeClass]string{
	hns.Unlisted: "no known meaning", hns.RefusesContent: "refused", hns.RefusesEndpoint: "endpoint refused", hns.SaysExists: "exists",
	hns.SaysMissing: "missing", hns.SaysUsed: "in use", hns.BrokeOff: "broke off",
}

// bothMissing: a binding that finds an object by a list has no code for one that is not in it.
func bothMissing(ours, theirs *Record) bool {
	modifies := strings.HasPrefix(ours.Export, "HcnModify")
	return !modifies && missing(ours) && missing(theirs)
}

// compareLists compares GUIDs in any order.
func compareLists(ours, theirs string) string {
	var lists [2][]string
	for i, text := range []string{ours, theirs} {
		if json.Unmarshal([]byte(strings.ToLower(text)), &lists[i]) != nil {
			return "a list of GUIDs is none"
		}
		slices.Sort(lists[i])
	}
	if slices.Equal(lists[0], lists[1]) {
		return ""
	}
	return fmt.Sprintf("ours lists %d, theirs %d, not in both: %s", len(lists[0]), len(lists[1]), strings.Join(inOne(lists[0], lists[1]), ", "))
}

// inOne returns what is in one of two lists only, some of it.
func inOne(a, b []string) []string {
	var out []string
	for _, s := range slices.Concat(a, b) {
		if slices.Contains(a, s) != slices.Contains(b, s) && len(out) < 5 {
			out = append(out, s)
		}
	}
	return out
}

// seen is what an agent reads of an object.
type seen struct {
	object
	IPConfigurations []struct{ IPAddress string } `json:"IpConfigurations"`
}

// compareObjects compares what an agent reads of an object.
func compareObjects(ours, theirs *Record, own bool) string {
	var a, b seen
	if json.Unmarshal([]byte(ours.Output), &a) != nil || json.Unmarshal([]byte(theirs.Output), &b) != nil {
		return "an object that cannot be decoded"
	}
	for _, field := range []struct{ name, ours, theirs string }{
		{"ID", a.ID, b.ID}, {"Name", a.Name, b.Name}, {"HostComputeNetwork", a.HostComputeNetwork, b.HostComputeNetwork},
		{"HostComputeNamespace", a.HostComputeNamespace, b.HostComputeNamespace},
		{"Flags", fmt.Sprint(a.Flags), fmt.Sprint(b.Flags)},
		{"IpConfigurations", fmt.Sprint(a.IPConfigurations), fmt.Sprint(b.IPConfigurations)},
	} {
		if !strings.EqualFold(field.ours, field.theirs) {
			return fmt.Sprintf("%s is %q by ours, %q by theirs", field.name, field.ours, field.theirs)
		}
	}
	return comparePolicies(written(a.Policies, own), written(b.Policies, own))
}

// written leaves out, of the doctor's own objects, what HNS itself made.
func written(policies []shownPolicy, own bool) []shownPolicy {
	if !own {
		return policies
	}
	return slices.DeleteFunc(slices.Clone(policies), func(p shownPolicy) bool { return p.Type != "SetPolicy" && p.Type != "ACL" })
}

func comparePolicies(ours, theirs []shownPolicy) string {
	if len(ours) != len(theirs) {
		return fmt.Sprintf("ours shows %d policies, theirs %d", len(ours), len(theirs))
	}
	for i, p := range ours {
		if p.Type != theirs[i].Type {
			return fmt.Sprintf("policy %d is %s by ours, %s by theirs", i, p.Type, theirs[i].Type)
		}
		if what := compareJSON("policy "+p.Type, p.Settings, theirs[i].Settings); what != "" {
			return what
		}
	}
	return ""
}

// compareJSON compares values: a binding may spell an escape in another way.
func compareJSON(what string, ours, theirs json.RawMessage) string {
	if plain(ours) == plain(theirs) {
		return ""
	}
	return fmt.Sprintf("%s is %s by ours, %s by theirs", what, short(ours), short(theirs))
}

// plain is a value in one spelling: keys sorted, no blanks, numbers as they are written. What
// is no JSON stays as it is.
func plain(text json.RawMessage) string {
	var value any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if d.Decode(&value) != nil {
		return string(text)
	}
	out, err := json.Marshal(value)
	if err != nil {
		panic("BUG: what was decoded encodes: " + err.Error())
	}
	return string(out)
}

// short is the beginning of a text.
func short(text json.RawMessage) string {
	const most = 300
	if runes := []rune(string(text)); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return string(text)
}

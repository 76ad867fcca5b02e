package ipsets

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// Kind says what a set stands for, and with that whether it holds addresses
// (a leaf) or leaves (nested).
type Kind uint8

// The kinds.
const (
	KindNamespace         Kind = iota + 1 // leaf: the pods of a namespace
	KindPodLabel                          // leaf: the pods with a label key, or with a key and value
	KindPodSelector                       // leaf: the pods that a selector with a negative term matches
	KindNamedPort                         // leaf: the pods that serve a named port under one number
	KindEmpty                             // leaf: the permanent empty member of every nested set
	KindNestedLabel                       // nested: pods with one of several values of a label
	KindNamespaceSelector                 // nested: the namespaces that a selector matches
	KindNodes                             // leaf: the addresses of the nodes that a selector matches
	KindInBlocks                          // leaf: the addresses of pods and nodes inside blocks
	KindDoubt                             // nested: the addresses that may belong to any pod set
	KindDoubtAddrs                        // leaf: the members of KindDoubt that are not in doubt because of their namespace
	KindOrphan                            // leaf of our prefix in HNS that no name here gives
	KindOrphanNested                      // nested set of our prefix in HNS that no name here gives
)

// kinds has the readable start of the names of each kind, as users of the predecessor know it
// from vfpctrl (azure-container-networking, npm/pkg/dataplane/ipsets/ipset.go), and whether its
// sets hold sets.
var kinds = [...]struct {
	prefix string
	nested bool
}{
	KindNamespace:         {prefix: "ns-"},
	KindPodLabel:          {prefix: "podlabel-"},
	KindPodSelector:       {prefix: "podselector-"},
	KindNamedPort:         {prefix: "namedport:"},
	KindEmpty:             {prefix: "empty-"},
	KindNestedLabel:       {prefix: "nestedlabel-", nested: true},
	KindNamespaceSelector: {prefix: "nslabel-", nested: true},
	KindNodes:             {prefix: "nodes-"},
	KindInBlocks:          {prefix: "inblocks-"},
	KindDoubt:             {prefix: "doubt-", nested: true},
	KindDoubtAddrs:        {prefix: "doubtaddresses-"},
	KindOrphan:            {},
	KindOrphanNested:      {nested: true},
}

// Name identifies a set. It is comparable; the zero Name is no set.
type Name struct {
	kind Kind
	deny bool // of a deny twin
	text string
	id   string // of an orphan, as read; the id of others follows from the name
}

// Namespace names the set of the pods of a namespace: ns-x.
func Namespace(ns string) Name { return Name{kind: KindNamespace, text: ns} }

// PodLabelKey names the set of the pods that have a label: podlabel-app.
func PodLabelKey(key string) Name { return Name{kind: KindPodLabel, text: key} }

// PodLabel names the set of the pods with a label value: podlabel-app:web.
func PodLabel(key, value string) Name { return Name{kind: KindPodLabel, text: key + ":" + value} }

// PodSelector names the computed set of the pods, in one namespace or with ""
// in all, that a selector matches. The selector is in its canonical text.
func PodSelector(namespace, selector string) Name {
	return Name{kind: KindPodSelector, text: namespace + "/" + selector}
}

// NamedPort names the set of the pods that serve a named port under number:
// namedport:http:TCP:8080.
func NamedPort(port, protocol string, number uint16) Name {
	return Name{kind: KindNamedPort, text: fmt.Sprintf("%s:%s:%d", port, protocol, number)}
}

// NamedPortIn is NamedPort for the pods inside a block of addresses only; the
// block is in its canonical text.
func NamedPortIn(block, port, protocol string, number uint16) Name {
	return Name{kind: KindNamedPort, text: fmt.Sprintf("%s:%s:%d@%s", port, protocol, number, block)}
}

// Empty names the set that never has a member.
func Empty() Name { return Name{kind: KindEmpty, text: "emptyhashset"} }

// NestedLabel names the set of the pods that have one of several values of a
// label: nestedlabel-app:v1:v2. Order and repetition of values do not matter.
func NestedLabel(key string, values ...string) Name {
	sorted := slices.Compact(slices.Sorted(slices.Values(values)))
	return Name{kind: KindNestedLabel, text: key + ":" + strings.Join(sorted, ":")}
}

// AllNamespaces names the set of all known namespaces.
func AllNamespaces() Name { return Name{kind: KindNamespaceSelector, text: "all-namespaces"} }

// NamespaceLabel names the set of the namespaces with a label value: nslabel-team:a.
func NamespaceLabel(key, value string) Name {
	return Name{kind: KindNamespaceSelector, text: key + ":" + value}
}

// NamespaceSelector names the set of the namespaces that any other selector
// matches. The braces keep it apart from the other two.
func NamespaceSelector(selector string) Name {
	return Name{kind: KindNamespaceSelector, text: "{" + selector + "}"}
}

// Nodes names the set of the addresses of the nodes that a selector matches. The
// selector is in its canonical text.
func Nodes(selector string) Name { return Name{kind: KindNodes, text: selector} }

// InBlocks names the set of the addresses of pods and nodes inside one of some blocks.
// The blocks are in their canonical text.
func InBlocks(blocks string) Name { return Name{kind: KindInBlocks, text: blocks} }

// Doubt names the set of the addresses that may belong to any pod set. Only rules that
// deny name it.
func Doubt() Name { return Name{kind: KindDoubt, text: "all", deny: true} }

// DoubtAddrs names the member of Doubt for addresses that are in doubt by themselves, not by their namespace.
func DoubtAddrs() Name { return Name{kind: KindDoubtAddrs, text: "all", deny: true} }

// denyMark stands before the name of a deny twin. No kind's prefix begins with it.
const denyMark = "deny-"

// Deny returns the deny twin of a set: it has the same definition, and rules that deny
// name it. It gains members before others lose them (ADR 24).
func (n Name) Deny() Name {
	n.deny = true
	return n
}

// Denies reports whether the set is a deny twin.
func (n Name) Denies() bool { return n.deny }

// Twin returns the other set of the same definition: of a deny twin the one that rules
// which allow name, and the other way round.
func (n Name) Twin() Name {
	n.deny = !n.deny
	return n
}

// Kind returns what the set stands for.
func (n Name) Kind() Kind { return n.kind }

// Nested reports whether the set holds sets.
func (n Name) Nested() bool { return kinds[n.kind].nested }

// Text returns the name without its prefix: the namespace of an ns- set.
func (n Name) Text() string { return n.text }

// known reports whether the name is of a known kind. The name of an orphan is not.
func (n Name) known() bool { return n.kind != KindOrphan && n.kind != KindOrphanNested }

// String returns the readable, prefixed name.
func (n Name) String() string { return string(n.appendTo(nil)) }

// appendTo appends the readable name.
func (n Name) appendTo(to []byte) []byte {
	if n.kind == 0 {
		panic("BUG: the name of no set")
	}
	if n.deny {
		to = append(to, denyMark...)
	}
	return append(append(to, kinds[n.kind].prefix...), n.text...)
}

// MaxName is the length of the longest name that a set gets in HNS, in bytes. HNS
// publishes no limit. The longest name of a label's set has this length: podlabel- with a key of 317
// and a value of 63 characters. The predecessor has written such names for years. Only names with
// a selector or a list of values are longer.
const MaxName = 390

// Called returns the name that the set has in HNS: String, or as much of it as fits, followed by the
// unique part of the id. The id follows from the whole name, so a set that is read under a cut name
// is found by its id.
func (n Name) Called() string {
	text := n.String()
	if len(text) <= MaxName || !n.known() {
		return text
	}
	mark := cutMark + strings.TrimPrefix(idOf([]byte(text)), idPrefix)
	return strings.ToValidUTF8(text[:MaxName-len(mark)], "") + mark
}

// cutMark stands in no label, selector, namespace or port.
const cutMark = "#"

// idPrefix marks the sets of WinNPM and its predecessor in HNS.
const idPrefix = "azure-npm-"

// ID returns the id that the set has in HNS: the prefix and the first 20 characters of the
// base-36 text of SHA-256 over the readable name (a text shorter than that is
// left-padded with zeros). It is the predecessor's rule, so that most sets
// survive its replacement. An orphan has the id that it was read with.
func (n Name) ID() string {
	if n.id != "" {
		return n.id
	}
	var text [256]byte // most names fit, and need no memory then
	return idOf(n.appendTo(text[:0]))
}

func idOf(name []byte) string {
	const digest = 20
	sum := sha256.Sum256(name)
	text := new(big.Int).SetBytes(sum[:]).Text(36)
	if short := digest - len(text); short > 0 {
		text = strings.Repeat("0", short) + text
	}
	return idPrefix + text[:digest]
}

// ParseName parses the result of String. It returns false for a name without one of our prefixes.
func ParseName(text string, nested bool) (Name, bool) {
	text, deny := strings.CutPrefix(text, denyMark)
	for kind := KindNamespace; kind < KindOrphan; kind++ {
		if rest, ok := strings.CutPrefix(text, kinds[kind].prefix); ok && kinds[kind].nested == nested {
			return Name{kind: kind, deny: deny, text: rest}, true
		}
	}
	return Name{}, false
}

// nameOf names a set that was read from HNS: with the name that gives this id and
// type, or as an orphan.
func nameOf(o Observed) Name {
	if n, ok := ParseName(o.Name, o.Nested); ok && idOf([]byte(o.Name)) == o.ID {
		return n
	}
	if o.Nested {
		return Name{kind: KindOrphanNested, text: o.Name, id: o.ID}
	}
	return Name{kind: KindOrphan, text: o.Name, id: o.ID}
}

// Compare orders names by their readable text; orphans of one text by id. It allocates
// for long names alone.
func Compare(a, b Name) int {
	var x, y [256]byte
	return cmp.Or(bytes.Compare(a.appendTo(x[:0]), b.appendTo(y[:0])), cmp.Compare(a.id, b.id))
}

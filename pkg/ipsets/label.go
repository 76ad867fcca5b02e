package ipsets

import "strings"

// label is what the name of a label set says: a key, or a key with a value.
type label struct {
	key, value string
	exact      bool // the value counts
	denies     bool // of a deny twin
}

// label returns what a set stands for; false when it is no set of a label.
func (n Name) label() (label, bool) {
	key, value, exact := strings.Cut(n.text, ":")
	return label{key, value, exact, n.deny}, n.kind == KindPodLabel
}

// EachPodLabel visits the defined sets of the pods that have a label. It makes no
// names: most labels of pods are mentioned by no policy.
func (c *Cache) EachPodLabel(key, value string, visit func(Name)) {
	for _, l := range [...]label{{key: key}, {key: key, value: value, exact: true}} {
		if n, ok := c.labels[l]; ok {
			visit(n)
		}
		if c.denyLabels > 0 {
			l.denies = true
			if n, ok := c.labels[l]; ok {
				visit(n)
			}
		}
	}
}

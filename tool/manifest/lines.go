package manifest

import (
	"fmt"
	"regexp"
	"strconv"

	yaml3 "sigs.k8s.io/yaml/goyaml.v3"
)

// What these are aliases of would be one more direct dependency.
type node = yaml3.Node //nolint:staticcheck // see above

var newDecoder = yaml3.NewDecoder //nolint:staticcheck // see above

const (
	aliasNode    = yaml3.AliasNode    //nolint:staticcheck // see above
	mappingNode  = yaml3.MappingNode  //nolint:staticcheck // see above
	sequenceNode = yaml3.SequenceNode //nolint:staticcheck // see above
)

// lines finds the lines of a document's parts. It parses the text a second time,
// and only when it is asked: the first parser keeps no lines.
type lines struct {
	text   []byte
	first  int // of the file, where the text begins
	parsed bool
	root   *node
}

// of returns the line of the file where a part begins: steps are keys and
// indexes. A part that is not found where it is looked for, as when it is merged
// in from an anchor, is at the line of what it should be in.
func (l *lines) of(steps ...any) int {
	if !l.parsed {
		l.parsed = true
		var document node
		if yaml3.Unmarshal(l.text, &document) == nil && len(document.Content) == 1 { //nolint:staticcheck // see above
			l.root = document.Content[0]
		}
	}
	if l.root == nil {
		return l.first
	}
	at := l.root
	for _, step := range steps {
		next := part(at, step)
		if next == nil {
			break
		}
		at = next
	}
	return l.first + at.Line - 1
}

// part returns one part of a node; nil when there is none.
func part(at *node, step any) *node {
	if at.Kind == aliasNode {
		at = at.Alias
	}
	switch step := step.(type) {
	case string:
		for i := 0; at.Kind == mappingNode && i+1 < len(at.Content); i += 2 {
			if at.Content[i].Value == step {
				return at.Content[i+1]
			}
		}
	case int:
		if at.Kind == sequenceNode && step < len(at.Content) {
			return at.Content[step]
		}
	}
	return nil
}

var itemIndex = regexp.MustCompile(`items\[(\d+)\]`)

// notePlaces notes where a policy and its rules are; ingress and egress say how
// many it has.
func (l *loader) notePlaces(at place, name string, ingress, egress int) {
	if at.lines == nil {
		return
	}
	var object []any
	for _, found := range itemIndex.FindAllStringSubmatch(at.item, -1) {
		i, err := strconv.Atoi(found[1])
		if err != nil {
			return
		}
		object = append(object, "items", i)
	}
	if l.objects.Places == nil {
		l.objects.Places = map[string]string{}
	}
	note := func(key string, steps ...any) {
		l.objects.Places[key] = fmt.Sprintf("%s:%d", at.file, at.lines.of(append(object, steps...)...))
	}
	note(name)
	for i := range ingress {
		note(fmt.Sprintf("%s spec.ingress[%d]", name, i), "spec", "ingress", i)
	}
	for i := range egress {
		note(fmt.Sprintf("%s spec.egress[%d]", name, i), "spec", "egress", i)
	}
}

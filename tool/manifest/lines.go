package manifest

import (
	"fmt"

	yaml3 "go.yaml.in/yaml/v3"
)

// lines finds the lines of a document's parts. It parses the text a second time,
// and only when it is asked: the first parser keeps no lines.
type lines struct {
	text   []byte
	first  int // of the file, where the text begins
	parsed bool
	root   *yaml3.Node
}

// of returns the line of the file where a part begins: steps are keys and
// indexes. A part that is not found where it is looked for, as when it is merged
// in from an anchor, is at the line of what it should be in.
func (l *lines) of(steps ...any) int {
	if !l.parsed {
		l.parsed = true
		var document yaml3.Node
		if yaml3.Unmarshal(l.text, &document) == nil && len(document.Content) == 1 {
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
func part(at *yaml3.Node, step any) *yaml3.Node {
	if at.Kind == yaml3.AliasNode {
		at = at.Alias
	}
	switch step := step.(type) {
	case string:
		for i := 0; at.Kind == yaml3.MappingNode && i+1 < len(at.Content); i += 2 {
			if at.Content[i].Value == step {
				return at.Content[i+1]
			}
		}
	case int:
		if at.Kind == yaml3.SequenceNode && step < len(at.Content) {
			return at.Content[step]
		}
	}
	return nil
}

// notePlaces notes where an object is, and the rules of a policy; ingress and egress say how
// many it has.
func (l *loader) notePlaces(at place, name string, ingress, egress int) {
	if at.lines == nil {
		return
	}
	if l.objects.Places == nil {
		l.objects.Places = map[string]string{}
	}
	l.objects.Places[name] = fmt.Sprintf("%s:%d", at.file, at.line(""))
	rules := func(direction string, n int) {
		for i := range n {
			path := fmt.Sprintf("spec.%s[%d]", direction, i)
			l.objects.Places[name+" "+path] = fmt.Sprintf("%s:%d", at.file, at.line(path))
		}
	}
	rules("ingress", ingress)
	rules("egress", egress)
}

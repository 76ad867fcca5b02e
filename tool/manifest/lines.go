package manifest

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"

	yaml3 "go.yaml.in/yaml/v3"
)

// lines finds the lines of a document's fields. It parses the text again when first used, as the first
// parser does not record lines.
type lines struct {
	text   []byte
	first  int // line of the file where the text begins
	parsed bool
	root   *yaml3.Node // nil: not known
}

// step is one step of the path of a field: a name, an index or a key in brackets.
var step = regexp.MustCompile(`\[([^\]]*)\]|[^.\[\]]+`)

// line returns the line of the file where a field begins, 0 if it is unknown. For a field that is not in
// the text, for example because it comes from a YAML anchor, it returns the line of its nearest parent.
func (p place) line(path string) int {
	l := p.lines
	if l == nil {
		return 0
	}
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
	for _, found := range step.FindAllStringSubmatch(p.item+"."+path, -1) {
		next := part(at, cmp.Or(found[1], found[0]))
		if next == nil {
			break
		}
		at = next
	}
	return l.first + at.Line - 1
}

// part returns the entry of a mapping or a list, nil if it does not exist.
func part(at *yaml3.Node, name string) *yaml3.Node {
	if at.Kind == yaml3.AliasNode {
		at = at.Alias
	}
	for i, n := range at.Content {
		switch {
		case at.Kind == yaml3.SequenceNode && strconv.Itoa(i) == name:
			return n
		case at.Kind == yaml3.MappingNode && i%2 == 1 && at.Content[i-1].Value == name:
			return n
		}
	}
	return nil
}

// notePlaces records the lines of an object and of the rules of a policy; ingress and egress are the
// numbers of its rules.
func (l *loader) notePlaces(at place, name string, ingress, egress int) {
	if at.lines == nil {
		return
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

package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	yaml3 "go.yaml.in/yaml/v3"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// A tree is JSON as nil, bool, int64, float64, string, []any and map[string]any.

// file reads the documents of a file that have content.
func (l *loader) file(f file) {
	if !utf8.Valid(f.data) {
		l.refused(&Error{File: f.name, Reason: "the text is not UTF-8; save it as UTF-8"})
		return
	}
	at := place{file: f.name}
	for _, doc := range split(bytes.ReplaceAll(f.data, []byte("\r\n"), []byte("\n"))) {
		at.lines = nil
		texts, err := doc.json(filepath.Ext(f.name) == ".json")
		if err != nil {
			at.document++
			l.refused(at.fail("", "%v", err)) // its text has the line
		}
		if len(texts) == 1 {
			at.lines = &lines{text: doc.text, first: doc.line}
		}
		for _, text := range texts {
			at.document++
			tree, err := parse(at, text)
			if err == nil {
				err = l.object(at, tree, "", "")
			}
			l.refused(err)
		}
	}
}

var likeJSON = regexp.MustCompile(`^\s*\{\s*["}]`)

// json returns the document as JSON values: those of JSON text, which may be
// several in a row, or the one of YAML. YAML in flow style looks like JSON at
// first; strict text must be JSON.
func (doc document) json(strict bool) ([]json.RawMessage, error) {
	if doc.unmarked {
		return nil, fmt.Errorf("line %d: there is text after '...' that no '---' begins, which kubectl does not read; write '---' before it", doc.line)
	}
	values, jsonErr := objects(doc.text)
	if jsonErr == nil {
		return values, nil
	}
	if strict {
		return nil, jsonError(doc, jsonErr)
	}
	value, err := yaml.YAMLToJSONStrict(doc.text)
	switch {
	case err == nil && trails(doc.text):
		return nil, fmt.Errorf("in the document that begins in line %d there is text behind the object, which would not be read; write '---' before it", doc.line)
	case err == nil:
		return []json.RawMessage{value}, nil
	case likeJSON.Match(doc.text):
		return nil, jsonError(doc, jsonErr)
	}
	return nil, yamlError(doc, err)
}

// trails reports whether there is more in the text than one object in braces. A YAML library
// stops behind it; of a text in lines it says itself what is wrong.
func trails(text []byte) bool {
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) == 0 || line[0] == '#' {
			continue
		}
		if line[0] != '{' && line[0] != '[' {
			return false
		}
		break
	}
	d, root := yaml3.NewDecoder(bytes.NewReader(text)), yaml3.Node{}
	return d.Decode(&root) == nil && !errors.Is(d.Decode(&root), io.EOF)
}

// objects cuts JSON text into the values that stand in it one after another.
func objects(data []byte) ([]json.RawMessage, error) {
	var out []json.RawMessage
	d := json.NewDecoder(bytes.NewReader(data))
	for {
		var raw json.RawMessage
		err := d.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		out = append(out, raw)
	}
}

// parse makes a tree of valid JSON, and refuses a key that occurs twice.
func parse(at place, text []byte) (any, *Error) {
	var tree any
	twice, err := kjson.UnmarshalStrict(text, &tree, kjson.DisallowDuplicateFields)
	if err != nil {
		return nil, at.fail("", "%v", err)
	}
	if len(twice) == 0 {
		return tree, nil
	}
	path := ""
	if one, ok := errors.AsType[kjson.FieldError](twice[0]); ok {
		path = one.FieldPath()
	}
	return nil, at.fail(path, "the key occurs twice; keep one of them")
}

var yamlLine = regexp.MustCompile(`line (\d+): `)

// yamlWords are what the parser repeats of a document, which may be a secret, and what is said
// instead.
var yamlWords = []struct {
	repeats *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`unknown anchor '.*' referenced`), "an alias (*) without its anchor (&): a value that begins with * needs quotes"},
	{regexp.MustCompile(`invalid map key: .*`), "a key that is no text: what begins with {{ needs quotes"},
	{regexp.MustCompile("(?s)`.*`"), "a value"},
}

// yamlError takes the first complaint of the YAML parser, with the line of the
// file instead of that of the document.
func yamlError(doc document, err error) error {
	text := strings.TrimPrefix(err.Error(), "error converting YAML to JSON: ")
	text = strings.TrimPrefix(text, "yaml: ")
	text = strings.TrimSpace(strings.TrimPrefix(text, "unmarshal errors:"))
	for _, words := range yamlWords {
		text = words.repeats.ReplaceAllLiteralString(text, words.instead)
	}
	text, _, _ = strings.Cut(text, "\n")
	found := yamlLine.FindStringSubmatchIndex(text)
	if found == nil {
		return fmt.Errorf("broken YAML, in the document that begins in line %d: %s; correct the text", doc.line, text)
	}
	n, _ := strconv.Atoi(text[found[2]:found[3]])
	return fmt.Errorf("broken YAML, line %d: %s; correct the text", doc.line+n-1, text[:found[0]]+text[found[1]:])
}

func jsonError(doc document, err error) error {
	line := doc.line + bytes.Count(doc.text, []byte("\n")) // where the text ends too early
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		line = doc.line + bytes.Count(doc.text[:min(int(syntax.Offset), len(doc.text))], []byte("\n"))
	}
	return fmt.Errorf("broken JSON, line %d: %w; correct the text", line, err)
}

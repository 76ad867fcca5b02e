package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	yaml3 "go.yaml.in/yaml/v3"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// A tree is decoded JSON: nil, bool, int64, float64, string, []any or map[string]any.

// documents reads the documents of a text that have content.
func (l *loader) documents(name string, text []byte) {
	if !utf8.Valid(text) {
		l.refused(&Error{File: name, Reason: "the text is not UTF-8; save it as UTF-8"})
		return
	}
	at := place{file: name}
	found := split(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")))
	l.empty = len(found) == 0
	for _, doc := range found {
		at.lines = nil
		texts, err := doc.json()
		if err != nil {
			at.document++
			l.refused(at.fail("", "%v", err)) // its text has the line
		}
		if len(texts) == 1 {
			at.lines = &lines{text: doc.text, first: doc.line}
		}
		for _, value := range texts {
			at.document++
			tree, err := parse(at, value)
			if err == nil {
				err = l.object(at, tree, "", "")
			}
			l.refused(err)
		}
	}
}

var likeJSON = regexp.MustCompile(`^\s*\{\s*["}]`)

// json returns the document as JSON values: several if it is a sequence of JSON values, or one if it is
// YAML. It tries JSON first, as YAML in flow style may begin like JSON.
func (doc document) json() ([]json.RawMessage, error) {
	values, jsonErr := objects(doc.text)
	if jsonErr == nil {
		return values, nil
	}
	value, err := yaml.YAMLToJSONStrict(doc.text)
	switch {
	case err != nil && likeJSON.Match(doc.text):
		return nil, jsonError(doc, jsonErr)
	case err != nil:
		return nil, yamlError(doc, err)
	case trails(doc.text):
		return nil, fmt.Errorf("in the document that begins in line %d there is text behind the object, which would not be read; write '---' before it", doc.line)
	}
	return []json.RawMessage{value}, nil
}

// mayTrail matches documents of which the YAML library may ignore trailing text: an object in braces, or a
// document with an end marker. For other documents the library itself returns an error.
var mayTrail = regexp.MustCompile(`\A(?:\s*#.*\n)*\s*[{\[]|(?m:^\.\.\.\s)`)

// trails reports whether there is text behind the object that the YAML library ignores.
func trails(text []byte) bool {
	d, root := yaml3.NewDecoder(bytes.NewReader(text)), yaml3.Node{}
	return mayTrail.Match(text) && d.Decode(&root) == nil && !errors.Is(d.Decode(&root), io.EOF)
}

// objects splits a sequence of JSON values.
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

// parse returns the tree of valid JSON. It returns an error for a duplicate key.
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

// yamlWords are replacements for parser errors that quote the document, because the quoted text may be
// secret.
var yamlWords = []struct {
	repeats *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`unknown anchor '.*' referenced`), "an alias (*) without its anchor (&): a value that begins with * needs quotes"},
	{regexp.MustCompile(`invalid map key: .*`), "a key that is no text: what begins with {{ needs quotes"},
	{regexp.MustCompile("(?s)`.*`"), "a value"},
}

// yamlError returns the first error of the YAML parser, with the line in the file instead of the
// line in the document.
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
	line := doc.line + bytes.Count(doc.text, []byte("\n")) // the last line, where truncated text ends
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		line = doc.line + bytes.Count(doc.text[:min(int(syntax.Offset), len(doc.text))], []byte("\n"))
	}
	return fmt.Errorf("broken JSON, line %d: %w; correct the text", line, err)
}

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

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// A tree is JSON as nil, bool, int64, float64, string, []any and map[string]any.

// trees parses f and hands each document with content to use. What is wrong with one goes to
// refused, which says whether to go on.
func trees(f file, refused func(error) error, use func(at place, tree any) error) error {
	if !utf8.Valid(f.data) {
		return refused(&Error{File: f.name, Reason: "the text is not UTF-8; save it as UTF-8"})
	}
	data := bytes.TrimPrefix(f.data, []byte("\uFEFF"))
	data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	at := place{file: f.name}
	for _, doc := range split(data) {
		at.document++
		texts, err := doc.json(filepath.Ext(f.name) == ".json")
		if err != nil {
			at.lines = nil // the text of the error has the line
			if err := refused(at.fail(nil, "%v", err)); err != nil {
				return err
			}
			continue
		}
		if at.lines = nil; len(texts) == 1 {
			at.lines = &lines{text: doc.text, first: doc.line}
		}
		for i, text := range texts {
			if i > 0 {
				at.document++
			}
			if err := one(at, text, refused, use); err != nil {
				return err
			}
		}
	}
	return nil
}

// one parses the text of a document and hands it to use.
func one(at place, text []byte, refused func(error) error, use func(at place, tree any) error) error {
	tree, err := parse(at, text)
	if err == nil {
		err = use(at, tree)
	}
	if err != nil {
		return refused(err)
	}
	return nil
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
	d, root := newDecoder(bytes.NewReader(text)), node{}
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
			return out, err
		}
		out = append(out, raw)
	}
}

// parse makes a tree of valid JSON, and refuses a key that occurs twice.
func parse(at place, text []byte) (any, error) {
	var tree any
	twice, err := kjson.UnmarshalStrict(text, &tree, kjson.DisallowDuplicateFields)
	if err != nil {
		return nil, at.fail(nil, "%v", err)
	}
	if len(twice) == 0 {
		return tree, nil
	}
	out := at.fail(nil, "the key occurs twice; keep one of them")
	if one, ok := errors.AsType[kjson.FieldError](twice[0]); ok {
		out.Field = one.FieldPath()
		out.Line = at.line(out.Field)
	}
	return nil, out
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

package hnsfault

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// word is one blank-separated part of a dump line: KEY=A,B or A,B.
type word struct {
	key    string // empty: positional
	values []string
}

// splitWords splits a line; every value may be quoted as in Go.
func splitWords(text string) ([]word, error) {
	var words []word
	for text != "" {
		var w word
		if i := strings.IndexAny(text, `= ,"`); i > 0 && text[i] == '=' {
			w.key, text = text[:i], text[i+1:]
		}
		for {
			value, rest, err := cutValue(text)
			if err != nil {
				return nil, err
			}
			w.values, text = append(w.values, value), rest
			if !strings.HasPrefix(text, ",") {
				break
			}
			text = text[1:]
		}
		words = append(words, w)
		if text == "" {
			break
		}
		if text[0] != ' ' || len(text) == 1 {
			return nil, fmt.Errorf("unexpected %q", text)
		}
		text = text[1:]
	}
	return words, nil
}

// cutValue reads one value, quoted or bare.
func cutValue(text string) (value, rest string, err error) {
	if strings.HasPrefix(text, `"`) {
		quoted, err := strconv.QuotedPrefix(text)
		if err != nil {
			return "", "", fmt.Errorf("quoted text: %w", err)
		}
		value, err := strconv.Unquote(quoted)
		return value, text[len(quoted):], err
	}
	end := strings.IndexAny(text, " ,")
	if end < 0 {
		end = len(text)
	}
	if value = text[:end]; value == "" || quote(value) != value {
		return "", "", fmt.Errorf("%q must be quoted", value)
	}
	return value, text[end:], nil
}

// cutWord cuts a single value and the blank behind it.
func cutWord(text string) (value, rest string, err error) {
	value, rest, err = cutValue(text)
	if err != nil {
		return "", "", err
	}
	rest, ok := strings.CutPrefix(rest, " ")
	if !ok {
		return "", "", fmt.Errorf("want a blank after %q", value)
	}
	return value, rest, nil
}

// split parts words into positional ones, which come first except for flags,
// and those with one of the allowed keys, each at most once.
func split(words []word, allowed ...string) (pos [][]string, keys map[string][]string, err error) {
	keys = map[string][]string{}
	for _, w := range words {
		switch {
		case w.key == "":
			pos = append(pos, w.values)
		case !slices.Contains(allowed, w.key):
			return nil, nil, fmt.Errorf("unknown key %q", w.key)
		case keys[w.key] != nil:
			return nil, nil, fmt.Errorf("%s twice", w.key)
		default:
			keys[w.key] = w.values
		}
	}
	return pos, keys, nil
}

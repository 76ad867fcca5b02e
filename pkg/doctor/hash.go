package doctor

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// HashNames replaces the names of networks, endpoints, sets and rules that are not the
// doctor's own, everywhere, by a hash of each with a key that nobody keeps. Addresses and
// GUIDs stay.
func (r *Result) HashNames(key []byte) {
	h := hasher{key: key, names: map[string]string{}}
	for _, record := range r.Records {
		var output any
		if json.Unmarshal([]byte(record.Output), &output) == nil {
			h.collect("", output)
		}
	}
	for _, record := range r.Records {
		record.Output, record.ErrorRecord, record.Error = h.inJSON(record.Output), h.inText(record.ErrorRecord), h.inText(record.Error)
		for i, text := range record.Request {
			record.Request[i] = h.inJSON(text)
		}
	}
	for i := range r.Answers {
		h.inFindings(r.Answers[i].Findings)
	}
	h.inFindings(r.Differences)
	r.Hashed = true
}

// hasher knows the names, and what stands for each.
type hasher struct {
	key   []byte
	names map[string]string
}

// collect finds the names in what HNS shows: texts of keys that end in Name, and Ids that
// are no GUIDs.
func (h hasher) collect(key string, value any) {
	switch value := value.(type) {
	case map[string]any:
		for k, v := range value {
			h.collect(strings.ToLower(k), v)
		}
	case []any:
		for _, v := range value {
			h.collect(key, v)
		}
	case string:
		named := strings.HasSuffix(key, "name") || key == "id" && !isGUID(value)
		if named && value != "" && !strings.Contains(value, "doctor") && !strings.HasPrefix(value, hereID+"00000000") {
			sum := hmac.New(sha256.New, h.key)
			sum.Write([]byte(value))
			h.names[value] = "name-" + hex.EncodeToString(sum.Sum(nil))[:16]
		}
	}
}

// literal is a string of JSON.
var literal = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// inJSON replaces names that are whole strings, or items of a list in one, and in the JSON
// that a string may hold. All else stays as it was written.
func (h hasher) inJSON(text string) string {
	return literal.ReplaceAllStringFunc(text, func(quotedText string) string {
		var value string
		if json.Unmarshal([]byte(quotedText), &value) != nil {
			return quotedText
		}
		plain := value
		if hash, ok := h.names[value]; ok {
			value = hash
		} else if strings.HasPrefix(value, "{") {
			value = h.inJSON(value)
		} else {
			items := strings.Split(value, ",")
			for i, item := range items {
				items[i] = or(h.names[item], item)
			}
			value = strings.Join(items, ",")
		}
		if value == plain {
			return quotedText
		}
		return quoted(value)
	})
}

// inText replaces names anywhere, the longest first. Very short ones would be found in words
// that mean something else.
func (h hasher) inText(text string) string {
	names := sorted(h.names)
	slices.SortStableFunc(names, func(a, b string) int { return len(b) - len(a) })
	for _, name := range names {
		if len(name) > 3 {
			text = strings.ReplaceAll(text, name, h.names[name])
		}
	}
	return text
}

func (h hasher) inFindings(findings []Finding) {
	for i := range findings {
		findings[i].Why = h.inText(findings[i].Why)
	}
}

package doctor

import (
	"maps"
	"slices"
)

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// or is a text, or another one for an empty one.
func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

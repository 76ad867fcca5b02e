// Package phrase has what several commands of the tool need to phrase a message.
package phrase

import (
	"fmt"
	"strings"
)

// Count returns a number with its noun: "1 pod", "2 pods", "2 policies".
func Count(n int, noun string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case strings.HasSuffix(noun, "y"):
		return fmt.Sprintf("%d %sies", n, strings.TrimSuffix(noun, "y"))
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Similar returns the name that is most similar to word, ignoring case. It returns the first of
// several, and "" if none is similar. A third of the word may differ, but at most three bytes.
func Similar(word string, names []string) string {
	word = strings.ToLower(word)
	found, least := "", 1+min(3, len(word)/3)
	for _, name := range names {
		if n := len(name) - len(word); n >= least || -n >= least {
			continue // also skips the comparison with a huge word
		}
		if d := edits(word, strings.ToLower(name)); d < least {
			found, least = name, d
		}
	}
	return found
}

// edits returns the number of bytes to insert, delete or change to turn a into b.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

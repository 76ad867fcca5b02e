package main

import (
	"maps"
	"slices"
	"sync"
)

// notes are what an operator should know although the agent works, by subject. The zero
// value has none.
type notes struct {
	mu    sync.Mutex // guards texts
	texts map[string]string
}

// set replaces the note about a subject; "" removes it.
func (n *notes) set(about, text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if text == "" {
		delete(n.texts, about)
		return
	}
	if n.texts == nil {
		n.texts = map[string]string{}
	}
	n.texts[about] = text
}

// list returns all notes, sorted.
func (n *notes) list() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Sorted(maps.Values(n.texts))
}

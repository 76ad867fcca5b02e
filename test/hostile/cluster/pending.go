package cluster

import (
	"os"
	"strings"
)

// pending has what a defence is missing against, and the branch that brings it:
// attacks by name, and tests that play several. A row goes when its branch is merged.
var pending = map[string]string{
	"notin": "active", "flood-notin": "active", "flood-notin-own": "active",
	"namespaces": "active", "flood-namespaces": "active", "flood-namespaces-own": "active", "mixed": "active",
	"flood-pods": "render", "flood-peers": "render", "flood-blocks": "render", "flood-ports": "render",
	"ports": "render", "http": "render", "facts": "render",
	"theft": "address", "nobodys": "address",
	"TestSearch":      "active, render and address",
	"TestUnderAttack": "active, render and address",
	"TestTwoBombs":    "render",
	"TestBundleBomb":  "texts", "TestAnswerWithoutEnd": "texts", "TestTerminalIsLeftAlone": "texts",
}

// Missing returns the branch with the defence that a test or one of several attacks,
// like "notin+peers", waits for; "" for none. HOSTILE=all plays them all the same.
func Missing(names string) string {
	if os.Getenv("HOSTILE") == "all" {
		return ""
	}
	names, _, _ = strings.Cut(names, " ") // the size of a flood
	for name := range strings.SplitSeq(names, "+") {
		if branch := pending[name]; branch != "" {
			return branch
		}
	}
	return ""
}

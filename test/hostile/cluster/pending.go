package cluster

import (
	"os"
	"strings"
)

// pending has what a defence is missing against, and the branch that brings it:
// attacks by name, and tests. A row goes when its branch is merged.
var pending = map[string]string{
	"theft": "address", "nobodys": "address",
	"flood-notin-own": "none yet: nothing bounds the members of the sets of one tenant",
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

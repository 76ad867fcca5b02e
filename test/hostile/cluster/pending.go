package cluster

import (
	"os"
	"strings"
)

// pending has what a defence is missing against, and the branch that brings it:
// attacks by name, and tests. A row goes when its branch is merged.
var pending = map[string]string{
	"flood-notin-own":      "none yet: nothing bounds the members of the sets of one tenant",
	"flood-namespaces-own": "none yet: as flood-notin-own, and what nested sets hold",
	"flood-ports":          "none yet: 27 MB go to HNS in a minute",
	"flood-blocks":         "none yet: a new pod is closed after twelve calls, eleven are promised",
	"flood-peers":          "none yet: as flood-blocks",
	"flood-pods":           "none yet: as flood-blocks",
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

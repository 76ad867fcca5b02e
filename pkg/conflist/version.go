package conflist

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// ErrVersion is of a list in a version of CNI that our plugin does not speak: with the plugin
// in it no pod of the node would start any more.
var ErrVersion = errors.New("our plugin does not speak the list's cniVersion")

// versions are those that our plugin speaks.
var versions = []string{"0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"}

// CheckVersion returns ErrVersion for a list that our plugin must not be put into. A list
// that cannot be read is Insert's to refuse.
func CheckVersion(file []byte) error {
	var list struct {
		Version string `json:"cniVersion"`
	}
	if json.Unmarshal(file, &list) != nil || slices.Contains(versions, list.Version) {
		return nil
	}
	return fmt.Errorf("%w: it is %q, and one of %v is needed", ErrVersion, list.Version, versions)
}

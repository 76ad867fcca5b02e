package cli

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
)

// exclusiveFlags is what cobra says of flags that exclude each other.
var exclusiveFlags = regexp.MustCompile(`^if any flags in the group .* none of the others can be; \[(.*)\] were all set$`)

// usageError returns an error of cobra, in fewer words if flags exclude each other.
func usageError(err error) error {
	if found := exclusiveFlags.FindStringSubmatch(err.Error()); found != nil {
		return fmt.Errorf("--%s exclude each other: give one of them", strings.Join(strings.Fields(found[1]), " and --"))
	}
	return err
}

// prefix returns what begins each line about an error of a command.
func prefix(name string, cmd *cobra.Command, text string) string {
	verb := cmd.Name()
	if !cmd.HasParent() || strings.HasPrefix(text, verb+": ") || strings.HasPrefix(text, verb+" ") {
		return name + ": "
	}
	return name + ": " + verb + ": "
}

// Needs refuses a command line with less than least or more than most arguments
// beside flags, and says how it is written.
func Needs(least, most int, like string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if least <= len(args) && len(args) <= most {
			return nil
		}
		return fmt.Errorf("%s: %d arguments: write %s", cmd.Name(), len(args), like)
	}
}

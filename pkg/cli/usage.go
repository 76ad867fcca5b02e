package cli

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// What the library says of a command line, which is worded for who writes programs.
var (
	unknownCommand = regexp.MustCompile(`^unknown command "(.*)" for "`)
	exclusiveFlags = regexp.MustCompile(`^if any flags in the group .* none of the others can be; \[(.*)\] were all set$`)
)

// usageError says what is wrong with a command line, and what to write.
func usageError(cmd *cobra.Command, err error) error {
	var (
		missing *pflag.NotExistError
		empty   *pflag.ValueRequiredError
		invalid *pflag.InvalidValueError
		syntax  *pflag.InvalidSyntaxError
	)
	switch {
	case errors.As(err, &missing):
		return noFlag(cmd, missing)
	case errors.As(err, &empty):
		what, _ := pflag.UnquoteUsage(empty.GetFlag())
		return fmt.Errorf("--%s needs a value: %s", empty.GetFlag().Name, what)
	case errors.As(err, &invalid):
		return fmt.Errorf("--%s %q: %s", invalid.GetFlag().Name, invalid.GetValue(), form(invalid.GetFlag().Value.Type()))
	case errors.As(err, &syntax):
		return fmt.Errorf("%q is no flag: write it like --output=json", syntax.GetSpecifiedFlag())
	}
	if found := unknownCommand.FindStringSubmatch(err.Error()); found != nil {
		if cmd.HasSubCommands() {
			return noCommand(cmd, found[1])
		}
		return fmt.Errorf("what is %q? It takes flags alone; %s --help lists them", found[1], cmd.CommandPath())
	}
	if found := exclusiveFlags.FindStringSubmatch(err.Error()); found != nil {
		names := strings.Fields(found[1])
		return fmt.Errorf("--%s exclude each other: give one of them", strings.Join(names, " and --"))
	}
	return err
}

// form says how the values of a type of flag are written.
func form(of string) string {
	switch of {
	case "bool":
		return "give true or false"
	case "duration":
		return "give a time, like 30s or 5m"
	case "int", "int64", "uint16", "uint":
		return "give a number"
	}
	return "is no value of it"
}

func noFlag(cmd *cobra.Command, e *pflag.NotExistError) error {
	if short := e.GetSpecifiedShortnames(); short != "" {
		return fmt.Errorf("there is no flag -%s (in -%s); %s --help lists them", e.GetSpecifiedName(), short, cmd.CommandPath())
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if like := Similar(e.GetSpecifiedName(), names); like != "" {
		return fmt.Errorf("there is no flag --%s; did you mean --%s?", e.GetSpecifiedName(), like)
	}
	return fmt.Errorf("there is no flag --%s; %s --help lists them", e.GetSpecifiedName(), cmd.CommandPath())
}

func noCommand(root *cobra.Command, name string) error {
	names := verbs(root)
	if like := Similar(name, names); like != "" {
		return fmt.Errorf("there is no command %q; did you mean %s?", name, like)
	}
	return fmt.Errorf("there is no command %q; there is %s", name, strings.Join(names, ", "))
}

// verbs returns the names of the commands below one.
func verbs(root *cobra.Command) []string {
	var out []string
	for _, cmd := range root.Commands() {
		if cmd.IsAvailableCommand() {
			out = append(out, cmd.Name())
		}
	}
	slices.Sort(out)
	return out
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

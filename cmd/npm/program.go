package main

import (
	"strings"

	"github.com/spf13/cobra"
)

// program is what a person types to run this program.
type program string

// As kubectl npm, the agents of a cluster are what is asked unless a flag says
// something else.
const (
	npm        program = "npm"
	winNPM     program = "winnpm" // where npm is that of Node.js
	kubectlNPM program = "kubectl npm"
)

// programOf tells by the name of the executable. kubectl runs kubectl-npm for
// "kubectl npm".
func programOf(executable string) program {
	name := executable[strings.LastIndexAny(executable, `/\`)+1:]
	switch strings.TrimSuffix(strings.ToLower(name), ".exe") {
	case "kubectl-npm", "kubectl_npm":
		return kubectlNPM
	case "winnpm":
		return winNPM
	}
	return npm
}

// executable is the name of the file, by which shells complete what is typed.
func (p program) executable() string { return strings.ReplaceAll(string(p), " ", "-") }

// title has the help of a command and of those below it name the program.
func (p program) title(root *cobra.Command) {
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: string(p)}
	for _, cmd := range root.Commands() {
		cmd.Example = strings.ReplaceAll(cmd.Example, string(npm)+" "+cmd.Name(), string(p)+" "+cmd.Name())
	}
}

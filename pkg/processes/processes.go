// Package processes says which process of this computer it is that has what
// somebody else wants. What it cannot find out it leaves out: it is for messages,
// and decides about nothing but rights.
package processes

import (
	"fmt"

	"github.com/winnpm/winnpm/pkg/printable"
)

// mostName is how many characters of a program's name are shown.
const mostName = 64

// Text writes a process for a message: "process 12 (npm.exe)", without a name
// that is not known.
func Text(pid uint32, name string) string {
	if name == "" {
		return fmt.Sprintf("process %d", pid)
	}
	letters := []rune(printable.Line(name))
	if len(letters) > mostName {
		letters = append(letters[:mostName], '…')
	}
	return fmt.Sprintf("process %d (%s)", pid, string(letters))
}

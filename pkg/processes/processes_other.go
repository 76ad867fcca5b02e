//go:build !windows

package processes

// Describe returns the Text of a process, here without its name.
func Describe(pid uint32) string { return Text(pid, "") }

// Listening returns the Text of the process that listens on an address, here "".
func Listening(string) string { return "" }

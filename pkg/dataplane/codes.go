package dataplane

import "fmt"

// codeText returns a code of HNS as warnings show it.
func codeText(code uint32) string { return fmt.Sprintf("0x%08x", code) }

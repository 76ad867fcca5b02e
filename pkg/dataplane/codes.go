package dataplane

import (
	"fmt"
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
)

// codeText returns a code of HNS as warnings show it: the number, and its name when
// it has one.
func codeText(code uint32) string {
	return strings.TrimSpace(fmt.Sprintf("0x%08x %s", code, hns.LookupCode(code).Name))
}

// inBrackets returns the text of a code behind a blank, "" for none.
func inBrackets(code uint32) string {
	if code == 0 {
		return ""
	}
	return " (" + codeText(code) + ")"
}

package node

import (
	"errors"
	"fmt"
	"regexp"
	"unicode"
)

// mostAddresses is how many addresses a pod has at most. Dual stack has two.
const mostAddresses = 16

// What a caller may write. Names are as Kubernetes has them, so that none can pass for
// another one in a log or a key.
var (
	namespaces = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	names      = regexp.MustCompile(`^[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?$`)
	uids       = regexp.MustCompile(`^[-A-Za-z0-9]{0,64}$`)
	containers = regexp.MustCompile(`^[A-Za-z0-9][-_.A-Za-z0-9]{0,255}$`)
)

// mostBytes bounds texts that have no form.
const mostBytes = 512

// check returns what is wrong with a claim, without repeating what is too long.
func (c Claim) check() error {
	for _, field := range []struct {
		what, text string
		form       *regexp.Regexp
	}{
		{"namespace", c.Namespace, namespaces},
		{"name", c.Name, names},
		{"uid", c.UID, uids},
		{"containerID", c.ContainerID, containers},
	} {
		switch {
		case field.form.MatchString(field.text):
		case len(field.text) > mostBytes:
			return fmt.Errorf("%s of %d bytes", field.what, len(field.text))
		default:
			return fmt.Errorf("%s %q is none of a pod", field.what, field.text)
		}
	}
	if !short(c.Netns) || !short(c.Endpoint) {
		return fmt.Errorf("netns or endpoint is no line of at most %d characters", mostBytes)
	}
	if len(c.Addresses) > mostAddresses {
		return fmt.Errorf("%d addresses, at most %d", len(c.Addresses), mostAddresses)
	}
	for _, a := range c.Addresses {
		if !a.IsGlobalUnicast() && !a.IsLinkLocalUnicast() || a.Zone() != "" {
			return errors.New("an address that no pod has")
		}
	}
	if c.Wait <= 0 || c.Wait > MaxWait {
		return fmt.Errorf("wait of %s, more than 0 and at most %s", c.Wait, MaxWait)
	}
	return nil
}

// short reports whether text is one line that needs no care.
func short(text string) bool {
	if len(text) > mostBytes {
		return false
	}
	for _, r := range text {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return false
		}
	}
	return true
}

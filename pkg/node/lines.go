package node

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
)

// Limits of lines, in bytes, including the end of the line.
const (
	mostOfClaim  = 64 << 10
	mostOfAnswer = 16 << 10
	mostOfReason = 1 << 10 // JSON needs at most six bytes for a character
)

// errSilent is the error for a caller that hung up before its first byte, as Reach does.
var errSilent = errors.New("nothing was said")

// readLine decodes a line of at most most bytes into value. Nothing may follow it.
func readLine(r io.Reader, most int64, value any) error {
	in := bufio.NewReader(io.LimitReader(r, most))
	line, err := in.ReadBytes('\n')
	switch {
	case err == nil && in.Buffered() > 0:
		return errors.New("more than one line")
	case err == nil:
		return json.Unmarshal(line, value)
	case int64(len(line)) == most:
		return fmt.Errorf("a line of more than %d bytes", most)
	case errors.Is(err, io.EOF) && len(line) == 0:
		return errSilent
	}
	return fmt.Errorf("half a line: %w", err)
}

func readClaim(r io.Reader) (Claim, error) {
	var c Claim
	if err := readLine(r, mostOfClaim, &c); err != nil {
		return Claim{}, err
	}
	if err := c.check(); err != nil {
		return Claim{}, err
	}
	for i, a := range c.Addresses {
		c.Addresses[i] = a.Unmap()
	}
	return c, nil
}

// readAnswer accepts any Code, because a newer agent may have more codes.
func readAnswer(r io.Reader) (Answer, error) {
	var a Answer
	if err := readLine(r, mostOfAnswer, &a); err != nil {
		return Answer{}, err
	}
	a.Code, a.Reason = reason(a.Code), reason(a.Reason)
	return a, nil
}

// writeLine writes a value of this package as one line of JSON. Encoding it cannot fail.
func writeLine(w io.Writer, value any) error { return json.NewEncoder(w).Encode(value) }

// reason returns text as one line of limited size, for Events and logs.
func reason(text string) string {
	if len(text) > mostOfReason {
		text = strings.ToValidUTF8(text[:mostOfReason], "")
	}
	return Printable(text)
}

// Printable returns text as one printable line. It does the same as cli.Printable, whose package
// has too many dependencies for a program that runs at the start of each pod.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}

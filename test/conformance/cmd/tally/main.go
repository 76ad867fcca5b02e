// Command tally passes on what "go test -v" prints, standard input to standard output,
// and says at the end how many tests and subtests of the conformance suite passed. It
// fails unless these are as many as were asked for: a test that is skipped, or not
// there any more, is one that did not pass.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
)

func main() {
	parent := flag.String("of", "TestConformance", "the test whose subtests are counted")
	tests := flag.Int("tests", 0, "how many tests the suite has")
	subtests := flag.Int("subtests", 0, "how many subtests these have")
	flag.Parse()
	got, err := count(os.Stdin, os.Stdout, *parent)
	if err != nil {
		fmt.Fprintln(os.Stderr, "tally:", err)
		os.Exit(1)
	}
	fmt.Printf("conformance: %d of %d tests, %d of %d subtests passed\n", got.tests, *tests, got.subtests, *subtests)
	if got.tests != *tests || got.subtests != *subtests {
		os.Exit(1)
	}
}

// tally is what passed.
type tally struct{ tests, subtests int }

// result is how a test ended, as "go test" says it: by four blanks for each level.
// The name of a subtest may contain a slash, so it does not say the level.
var result = regexp.MustCompile(`^( +)--- PASS: ([^/]+)/.* \([0-9.]+s\)$`)

// count copies lines and counts the results below one test.
func count(from io.Reader, to io.Writer, parent string) (tally, error) {
	var got tally
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadString('\n')
		if _, err := io.WriteString(to, line); err != nil {
			return got, err
		}
		if m := result.FindStringSubmatch(strings.TrimSuffix(line, "\n")); m != nil && m[2] == parent {
			switch len(m[1]) {
			case 4:
				got.tests++
			case 8:
				got.subtests++
			}
		}
		if errors.Is(err, io.EOF) {
			return got, nil
		}
		if err != nil {
			return got, err
		}
	}
}

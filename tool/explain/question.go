package explain

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"unicode"

	"github.com/winnpm/winnpm/pkg/policy"
)

// Node is the end that stands for the dump's own node.
const Node = "node"

// Question asks whether one end may open a connection to a port of another. An
// end is namespace/name of a pod, an IPv4 address, or Node.
type Question struct {
	From, To string
	Port     uint16
	Protocol policy.Protocol
}

// String returns the question as Parse reads it.
func (q Question) String() string {
	return fmt.Sprintf("%s -> %s:%d/%s", q.From, q.To, q.Port, q.Protocol)
}

// Parse reads FROM->TO:PORT/PROTO.
func Parse(text string) (Question, error) {
	from, rest, ok := strings.Cut(text, "->")
	at := strings.LastIndex(rest, ":")
	if !ok || at < 0 {
		return Question{}, errors.New("write FROM->TO:PORT/PROTO, like shop/web->shop/db:5432/TCP")
	}
	q := Question{From: strings.TrimSpace(from), To: strings.TrimSpace(rest[:at])}
	for _, end := range []string{q.From, q.To} {
		if err := checkEnd(end); err != nil {
			return Question{}, err
		}
	}
	var err error
	q.Port, q.Protocol, err = ParsePort(strings.TrimSpace(rest[at+1:]))
	if err != nil {
		return Question{}, err
	}
	return q, nil
}

// ParsePort reads PORT/PROTO.
func ParsePort(text string) (uint16, policy.Protocol, error) {
	number, protocol, ok := strings.Cut(text, "/")
	if !ok {
		return 0, "", errors.New("write PORT/PROTO, like 80/TCP")
	}
	n, err := strconv.ParseUint(number, 10, 16)
	if err != nil || n == 0 {
		return 0, "", fmt.Errorf("%q is no port: a number from 1 to 65535 is", number)
	}
	p := policy.Protocol(strings.ToUpper(protocol))
	if !p.Known() {
		return 0, "", fmt.Errorf("%q is no protocol: TCP, UDP and SCTP are", protocol)
	}
	return uint16(n), p, nil
}

// checkEnd accepts namespace/name, IPv4 addresses and the node.
func checkEnd(text string) error {
	if text == Node {
		return nil
	}
	if addr, err := netip.ParseAddr(text); err == nil {
		if !addr.Is4() {
			return fmt.Errorf("%s is no IPv4 address; WinNPM judges IPv4 only", text)
		}
		return nil
	}
	namespace, name, ok := strings.Cut(text, "/")
	strange := func(r rune) bool { return r == '/' || unicode.IsSpace(r) || !unicode.IsPrint(r) }
	if !ok || namespace == "" || name == "" || strings.ContainsFunc(namespace+name, strange) {
		return fmt.Errorf("%q is neither namespace/pod nor an IPv4 address", text)
	}
	return nil
}

// protocolNumbers are those of IANA.
var protocolNumbers = map[policy.Protocol]uint8{policy.TCP: 6, policy.UDP: 17, policy.SCTP: 132}

package processes

import (
	"net/netip"
	"slices"
)

// listener is a TCP port that a process listens on.
type listener struct {
	at  netip.AddrPort
	pid uint32
}

// find returns who is in the way of a listener on an address: who has the port
// there or on all addresses, or on any where all are asked for.
func find(listeners []listener, wanted netip.AddrPort) (pid uint32, ok bool) {
	i := slices.IndexFunc(listeners, func(l listener) bool {
		return l.at.Port() == wanted.Port() && (l.at.Addr() == wanted.Addr() || l.at.Addr().IsUnspecified() || wanted.Addr().IsUnspecified())
	})
	if i < 0 {
		return 0, false
	}
	return listeners[i].pid, true
}

// The rows of GetExtendedTcpTable (tcpmib.h), in 32-bit words; addresses and ports
// are in the order of the network.
const (
	row4, addr4, port4, pid4 = 6, 1, 2, 5
	row6, addr6, port6, pid6 = 14, 0, 5, 13
)

// listeners4 reads the table for IPv4, listeners6 that for IPv6. What is too short
// for its number of rows has fewer.
func listeners4(words []uint32) []listener {
	return rows(words, row4, func(row []uint32) listener {
		return listener{netip.AddrPortFrom(netip.AddrFrom4(bytesOf(row[addr4])), port(row[port4])), row[pid4]}
	})
}

func listeners6(words []uint32) []listener {
	return rows(words, row6, func(row []uint32) listener {
		var addr [16]byte
		for i := range 4 {
			word := bytesOf(row[addr6+i])
			copy(addr[4*i:], word[:])
		}
		return listener{netip.AddrPortFrom(netip.AddrFrom16(addr), port(row[port6])), row[pid6]}
	})
}

func rows(words []uint32, size int, read func(row []uint32) listener) []listener {
	if len(words) == 0 {
		return nil
	}
	var out []listener
	number, words := words[0], words[1:]
	for ; number > 0 && len(words) >= size; number-- {
		out, words = append(out, read(words[:size])), words[size:]
	}
	return out
}

// bytesOf returns a word as it is in memory.
func bytesOf(word uint32) [4]byte {
	return [4]byte{byte(word), byte(word >> 8), byte(word >> 16), byte(word >> 24)}
}

func port(word uint32) uint16 { return uint16(byte(word))<<8 | uint16(byte(word>>8)) }

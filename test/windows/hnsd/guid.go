package hnsd

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
)

// guid is a GUID as it lies in the memory of Windows: the first three groups
// are little endian numbers.
type guid [16]byte

// guidOf makes a GUID from a text: the same one every time, so that two runs
// can be compared.
func guidOf(text string) guid {
	sum := sha256.Sum256([]byte(text))
	var g guid
	copy(g[:], sum[:])
	g[7] = g[7]&0x0f | 0x40 // version 4
	g[8] = g[8]&0x3f | 0x80
	return g
}

// String returns the GUID as HNS writes it: in capitals, without braces.
func (g guid) String() string {
	return fmt.Sprintf("%08X-%04X-%04X-%X-%X", binary.LittleEndian.Uint32(g[:]),
		binary.LittleEndian.Uint16(g[4:]), binary.LittleEndian.Uint16(g[6:]), g[8:10], g[10:])
}

// parseGUID reads what String writes, in capitals or not.
func parseGUID(text string) (guid, error) {
	var g guid
	digits, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
	if err != nil || len(digits) != len(g) || len(text) != 36 {
		return g, refuse(codeInvalidArgument, "%q is no GUID", text)
	}
	copy(g[:], digits)
	for _, group := range [][]byte{g[0:4], g[4:6], g[6:8]} {
		for i, j := 0, len(group)-1; i < j; i, j = i+1, j-1 {
			group[i], group[j] = group[j], group[i]
		}
	}
	if !strings.EqualFold(g.String(), text) { // hyphens elsewhere
		return g, refuse(codeInvalidArgument, "%q is no GUID", text)
	}
	return g, nil
}

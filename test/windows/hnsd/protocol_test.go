package hnsd

import (
	"bytes"
	"encoding/binary"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGUID(t *testing.T) {
	t.Parallel()
	const text = "01234567-89AB-CDEF-0123-456789ABCDEF"
	id, err := parseGUID(text)
	require.NoError(t, err)
	require.Equal(t, guid{0x67, 0x45, 0x23, 0x01, 0xAB, 0x89, 0xEF, 0xCD, 0x01, 0x23, 0x45, 0x67, 0x89, 0xAB, 0xCD, 0xEF}, id)
	require.Equal(t, text, id.String())
	lower, err := parseGUID("01234567-89ab-cdef-0123-456789abcdef")
	require.NoError(t, err)
	require.Equal(t, id, lower)

	for _, bad := range []string{"", "ep-1", "{" + text + "}", "0123456789ABCDEF0123456789ABCDEF", "012345678-9AB-CDEF-0123-456789ABCDEF", "G1234567-89AB-CDEF-0123-456789ABCDEF"} {
		_, err := parseGUID(bad)
		require.Error(t, err, bad)
	}
	require.Equal(t, guidOf("a"), guidOf("a"))
	require.NotEqual(t, guidOf("a"), guidOf("b"))
}

func TestTexts(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "plain", "Grüße", "世界 🚀 \U0010FFFF"} {
		b, n := encodeText(&text)
		require.Len(t, b, int(n))
		require.Equal(t, text, decodeText(b))
	}
	_, n := encodeText(nil)
	require.Equal(t, int32(-1), n)
}

// What is no frame ends the connection, and only that one.
func TestMalformedFrames(t *testing.T) {
	t.Parallel()
	frame := func(length, len1, len2 uint32, more int) []byte {
		b := make([]byte, 4+requestHeader+more)
		binary.LittleEndian.PutUint32(b, length)
		binary.LittleEndian.PutUint32(b[4:], opOf("HcnEnumerateNetworks"))
		binary.LittleEndian.PutUint32(b[36:], len1)
		binary.LittleEndian.PutUint32(b[40:], len2)
		return b
	}
	tests := map[string][]byte{
		"too short":             frame(requestHeader-1, 0, 0, 0),
		"too long":              frame(maxFrame+1, 0, 0, 0),
		"a string too long":     frame(requestHeader+2, 4, 0, 2),
		"bytes after strings":   frame(requestHeader+4, 2, 0, 4),
		"half a character":      frame(requestHeader+4, 1, 3, 4),
		"lengths that overflow": frame(requestHeader, 0x80000000, 0x80000000, 0),
	}
	s, c := start(t, Options{})
	for name, b := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := readRequest(bytes.NewReader(b))
			require.Error(t, err)
			bad := c.as(2)
			_, err = bad.conn.Write(b)
			require.NoError(t, err)
			_, err = bad.receive()
			require.Error(t, err)
		})
	}
	require.Empty(t, s.Counts())
	require.Len(t, c.ids("HcnEnumerateNetworks", allQuery), 1)
}

// The numbers of the header are those of ops, name by name.
func TestOperationsOfTheHeader(t *testing.T) {
	t.Parallel()
	header, err := os.ReadFile("../dll/hnsd.h")
	require.NoError(t, err)
	got, next := map[uint32]string{}, uint32(0)
	for _, m := range regexp.MustCompile(`OP_([A-Z_]+)(?: = (\d+))?,`).FindAllStringSubmatch(string(header), -1) {
		if m[2] != "" {
			n, err := strconv.ParseUint(m[2], 10, 32)
			require.NoError(t, err)
			next = uint32(n)
		}
		got[next] = strings.ReplaceAll(m[1], "_", "")
		next++
	}
	want := map[uint32]string{}
	for number, op := range ops {
		want[number] = strings.ToUpper(strings.TrimPrefix(op.name, "Hcn"))
	}
	require.Equal(t, want, got)
}

func TestUnknownOperation(t *testing.T) {
	t.Parallel()
	s := New(Options{})
	a, err := s.answer(t.Context(), request{op: 999})
	require.NoError(t, err)
	require.Equal(t, codeNotImplemented, a.code)
	require.NotNil(t, a.record)
	require.Empty(t, s.Counts())
}

package hcsadapter

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/windows"
)

// TestWithoutHNS: a system without HNS gets an error.
func TestWithoutHNS(t *testing.T) {
	a, err := New(Options{Network: "azure"})
	if err == nil {
		a.Close()
		t.Skip("this system has an HNS; the suite in test/windows talks to it")
	}
	require.ErrorIs(t, err, ErrMissing)
	require.ErrorIs(t, err, windows.ERROR_MOD_NOT_FOUND)
}

// TestFind: an export that is missing is an error when it is looked for, as
// nobody may call it.
func TestFind(t *testing.T) {
	l := dlls{}
	require.NoError(t, l.find("kernel32.dll", "GetVersion"))
	require.NotZero(t, l["GetVersion"])
	err := l.find("kernel32.dll", "HcnEnumerateNetworks")
	require.ErrorIs(t, err, ErrMissing)
	require.ErrorContains(t, err, "HcnEnumerateNetworks")
	require.NotContains(t, l, "HcnEnumerateNetworks")
}

// callee stands behind every export. It says what it was given and answers what
// a test wants.
type callee struct {
	hr             uint32
	output, record *string // nil: NULL
	handle         uintptr

	object uintptr
	text   string
	id     windows.GUID
	texts  map[uintptr]bool // handed out and not freed
}

const someID = "01234567-89ab-CDEF-0123-456789abcdef"

func newCallee(t *testing.T) (*callee, dlls) {
	t.Helper()
	c := &callee{texts: map[uintptr]bool{}}
	alloc := windows.NewLazySystemDLL("ole32.dll").NewProc("CoTaskMemAlloc")
	realFree := windows.NewLazySystemDLL("ole32.dll").NewProc(free)
	give := func(to **uint16, s *string) {
		*to = nil
		if s == nil {
			return
		}
		units, err := windows.UTF16FromString(*s)
		require.NoError(t, err)
		p, _, _ := alloc.Call(uintptr(2 * len(units)))
		copy(unsafe.Slice((*uint16)(*(*unsafe.Pointer)(unsafe.Pointer(&p))), len(units)), units)
		*to = (*uint16)(*(*unsafe.Pointer)(unsafe.Pointer(&p)))
		c.texts[p] = true
	}
	l := dlls{}
	for name, export := range map[string]uintptr{
		"HcnEnumerate%ss": syscall.NewCallback(func(query *uint16, ids, record **uint16) uintptr {
			c.text = windows.UTF16PtrToString(query)
			give(ids, c.output)
			give(record, c.record)
			return uintptr(c.hr)
		}),
		"HcnOpen%s": syscall.NewCallback(func(id *windows.GUID, h *uintptr, record **uint16) uintptr {
			c.id, *h = *id, c.handle
			give(record, c.record)
			return uintptr(c.hr)
		}),
		"HcnQuery%sProperties": syscall.NewCallback(func(h uintptr, query *uint16, properties, record **uint16) uintptr {
			c.object, c.text = h, windows.UTF16PtrToString(query)
			give(properties, c.output)
			give(record, c.record)
			return uintptr(c.hr)
		}),
		"HcnModify%s": syscall.NewCallback(func(h uintptr, request *uint16, record **uint16) uintptr {
			c.object, c.text = h, windows.UTF16PtrToString(request)
			give(record, c.record)
			return uintptr(c.hr)
		}),
		"HcnClose%s": syscall.NewCallback(func(h uintptr) uintptr {
			c.object = h
			return uintptr(c.hr)
		}),
	} {
		for _, k := range []kind{kindNetwork, kindEndpoint} {
			l[fmt.Sprintf(name, k)] = export
		}
	}
	l[free] = syscall.NewCallback(func(p uintptr) uintptr {
		require.True(t, c.texts[p], "freed twice, or nobody's")
		delete(c.texts, p)
		_, _, _ = realFree.Call(p)
		return 0
	})
	return c, l
}

// TestExports: what every call makes of every kind of answer; each text is freed
// once.
func TestExports(t *testing.T) {
	text := func(s string) *string { return &s }
	const unknown, notFound uint32 = 0x803B0002, 0x80070490
	c, l := newCallee(t)
	big := strings.Repeat("10.0.0.1,", 200_000) + "ü, 世界 🚀"
	for _, k := range []kind{kindNetwork, kindEndpoint} {
		calls := map[string]struct {
			do     func() (string, error)
			output bool
		}{
			fmt.Sprintf("HcnEnumerate%ss", k):      {func() (string, error) { return l.enumerate(k, big) }, true},
			fmt.Sprintf("HcnOpen%s", k):            {func() (string, error) { _, err := l.open(k, someID); return "", err }, false},
			fmt.Sprintf("HcnQuery%sProperties", k): {func() (string, error) { return l.query(k, 7, big) }, true},
			fmt.Sprintf("HcnModify%s", k):          {func() (string, error) { return "", l.modify(k, 7, big) }, false},
			fmt.Sprintf("HcnClose%s", k):           {func() (string, error) { return "", l.close(k, 7) }, false},
		}
		for export, call := range calls {
			for name, test := range map[string]struct {
				hr             uint32
				output, record *string
				code           uint32
				fails          bool
			}{
				"done":                      {output: text(big)},
				"success of another kind":   {hr: 1, output: text("")},
				"an empty record":           {output: text("x"), record: text("")},
				"success without an answer": {fails: call.output},
				"success with a record":     {output: text("x"), record: text("warning"), fails: !strings.HasPrefix(export, "HcnClose")},
				"failure":                   {hr: unknown, code: unknown, fails: true},
				"failure with a record":     {hr: unknown, record: text(big), code: unknown, fails: true},
				"failure of Windows":        {hr: notFound, code: notFound, fails: true},
			} {
				*c = callee{texts: c.texts, hr: test.hr, output: test.output, record: test.record}
				if test.hr>>31 != 0 {
					c.output = nil
				}
				got, err := call.do()
				require.Equal(t, test.fails, err != nil, "%s: %s: %v", export, name, err)
				require.Empty(t, c.texts, "%s: %s: texts not freed", export, name)
				require.Equal(t, test.code, codeOf(err))
				if err != nil {
					require.ErrorContains(t, err, export+": ")
				} else if call.output {
					require.Equal(t, *test.output, got, "%s: %s", export, name)
				}
				if c.text != "" {
					require.Equal(t, big, c.text)
				}
			}
		}
	}
}

// TestOpen: the GUID crosses as Windows has it in memory, and a handle that comes
// with an error record is handed on, as it is open.
func TestOpen(t *testing.T) {
	c, l := newCallee(t)
	c.handle = 0x10
	h, err := l.open(kindEndpoint, someID)
	require.NoError(t, err)
	require.Equal(t, handle(0x10), h)
	require.Equal(t, windows.GUID{
		Data1: 0x01234567, Data2: 0x89ab, Data3: 0xcdef, Data4: [8]byte{0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef},
	}, c.id)

	warning := "degraded"
	c.record = &warning
	h, err = l.open(kindEndpoint, someID)
	require.ErrorContains(t, err, warning)
	require.Equal(t, handle(0x10), h)
	c.hr = codeEndpointNotFound
	h, err = l.open(kindEndpoint, someID)
	require.ErrorContains(t, err, warning)
	require.Zero(t, h)
	require.Empty(t, c.texts)

	c.id = windows.GUID{}
	for _, text := range []string{"", "no GUID", someID + "x", someID[1:], "{" + someID + "}", someID + "\x00", "}" + someID} {
		_, err := l.open(kindEndpoint, text)
		require.ErrorContains(t, err, "is no GUID", text)
		require.Zero(t, codeOf(err))
	}
	require.Zero(t, c.id, "HNS is not asked")
}

// TestNUL: a text that HNS would see the beginning of only is not sent.
func TestNUL(t *testing.T) {
	c, l := newCallee(t)
	_, err := l.enumerate(kindNetwork, "a\x00b")
	require.Error(t, err)
	_, err = l.query(kindNetwork, 7, "a\x00b")
	require.Error(t, err)
	require.Error(t, l.modify(kindNetwork, 7, "a\x00b"))
	require.Empty(t, c.text)
}

// TestSurrogates: half a pair, which UTF-8 does not have, is as it was when it is
// sent back.
func TestSurrogates(t *testing.T) {
	_, l := newCallee(t)
	units := []uint16{'a', 0xd834, 'b', 0}
	p, _, _ := windows.NewLazySystemDLL("ole32.dll").NewProc("CoTaskMemAlloc").Call(8)
	there := (*uint16)(*(*unsafe.Pointer)(unsafe.Pointer(&p)))
	copy(unsafe.Slice(there, 4), units)
	require.NoError(t, l.find("ole32.dll", free))
	again, err := windows.UTF16FromString(l.take(there))
	require.NoError(t, err)
	require.Equal(t, units, again)
}

package shim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/Microsoft/hcsshim/hcn"
	"golang.org/x/sys/windows"

	"github.com/winnpm/winnpm/pkg/hns/hcsadapter"
)

// The codes that stand for "hcsshim lists no such object": it has none of its own.
const (
	codeNetworkNotFound  uint32 = 0x803B0001
	codeEndpointNotFound uint32 = 0x803B0002
)

// errNotOffered: hcsshim's hcn does not have the call.
var errNotOffered = errors.New("hcsshim offers no such call")

// New returns calls of this system's HNS that hcsshim makes. Objects are made and deleted by
// nobody here. They are safe for concurrent use as far as hcsshim is.
func New() hcsadapter.Calls {
	b := &binding{open: map[uint64]string{}}
	return b.call
}

// binding knows what is open, as far as that has a meaning.
type binding struct {
	mu   sync.Mutex        // guards following; held for no call
	last uint64            // handle
	open map[uint64]string // GUIDs, until they are closed
}

// call implements hcsadapter.Calls. hcsshim panics where a DLL or an export is missing.
func (b *binding) call(export string, a hcsadapter.Arguments) (out hcsadapter.Outcome, err error) {
	defer func() {
		if p := recover(); p != nil {
			out, err = hcsadapter.Outcome{}, fmt.Errorf("hcsshim broke down: %v", p)
		}
	}()
	text := ""
	if len(a.Texts) > 0 {
		text = a.Texts[0]
	}
	kind := strings.TrimPrefix(export, "Hcn")
	switch {
	case export == "HNSCall":
		return version(a.Texts)
	case strings.HasPrefix(kind, "Enumerate"):
		return enumerate(strings.TrimPrefix(kind, "Enumerate"), text)
	case strings.HasPrefix(kind, "Open"):
		return hcsadapter.Outcome{Handle: b.opened(a.ID)}, nil
	case strings.HasPrefix(kind, "Close"):
		b.closed(a.Handle)
		return hcsadapter.Outcome{}, nil
	}
	id, ok := b.object(a.Handle)
	switch {
	case !ok:
		return hcsadapter.Outcome{HResult: 0x80070006, Record: "no such handle"}, nil // ERROR_INVALID_HANDLE
	case strings.HasPrefix(kind, "Query"):
		return read(kind, id)
	case strings.HasPrefix(kind, "Modify"):
		return modify(kind, id, text)
	}
	return hcsadapter.Outcome{}, fmt.Errorf("%w: %s", errNotOffered, export)
}

func (b *binding) opened(id string) uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last++
	b.open[b.last] = id
	return b.last
}

func (b *binding) closed(h uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.open, h)
}

func (b *binding) object(h uint64) (string, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	id, ok := b.open[h]
	return id, ok
}

// version is all that hcn has of the older API.
func version(texts []string) (hcsadapter.Outcome, error) {
	if strings.Join(texts, " ") != "GET /globals/version " {
		return hcsadapter.Outcome{}, fmt.Errorf("%w: HNSCall %q", errNotOffered, texts)
	}
	globals, err := hcn.GetGlobals()
	if err != nil {
		return answerOfOlder(err)
	}
	return shown(struct {
		Success bool
		Output  hcn.Version
	}{true, globals.Version})
}

// codeInText is where an error of the older API has its code: its type is hcsshim's own.
var codeInText = regexp.MustCompile(`failed in Win32: .*\(0x([0-9a-f]{1,8})\)`)

// answerOfOlder is answer for the older API.
func answerOfOlder(err error) (hcsadapter.Outcome, error) {
	found := codeInText.FindStringSubmatch(err.Error())
	if found == nil {
		return answer(err)
	}
	code, _ := strconv.ParseUint(found[1], 16, 32) // the pattern has but such
	return hcsadapter.Outcome{HResult: hresult(windows.Errno(code)), Record: err.Error()}, nil
}

// enumerate returns the GUIDs of a list of objects, which hcn has read.
func enumerate(kinds, query string) (hcsadapter.Outcome, error) {
	var q hcn.HostComputeQuery
	if err := json.Unmarshal([]byte(query), &q); err != nil {
		return hcsadapter.Outcome{}, fmt.Errorf("query: %w", err)
	}
	ids := []string{}
	switch kinds {
	case "Networks":
		all, err := hcn.ListNetworksQuery(q)
		if err != nil {
			return answer(err)
		}
		for _, n := range all {
			ids = append(ids, n.Id)
		}
	case "Endpoints":
		all, err := hcn.ListEndpointsQuery(q)
		if err != nil {
			return answer(err)
		}
		for _, e := range all {
			ids = append(ids, e.Id)
		}
	default:
		return hcsadapter.Outcome{}, fmt.Errorf("%w: HcnEnumerate%s", errNotOffered, kinds)
	}
	return shown(ids)
}

// read reads an object.
func read(export, id string) (hcsadapter.Outcome, error) {
	switch export {
	case "QueryNetworkProperties":
		return object(hcn.GetNetworkByID(id))
	case "QueryEndpointProperties":
		return object(hcn.GetEndpointByID(id))
	}
	return hcsadapter.Outcome{}, fmt.Errorf("%w: Hcn%s", errNotOffered, export)
}

func object[T any](o *T, err error) (hcsadapter.Outcome, error) {
	if err != nil {
		return answer(err)
	}
	return shown(o)
}

// modify sends a request, of which hcn has a type for each kind of object.
func modify(export, id, text string) (hcsadapter.Outcome, error) {
	switch export {
	case "ModifyNetwork":
		return sent(id, text, func(id string, r *hcn.ModifyNetworkSettingRequest) error {
			return (&hcn.HostComputeNetwork{Id: id}).ModifyNetworkSettings(r)
		})
	case "ModifyEndpoint":
		return sent(id, text, hcn.ModifyEndpointSettings)
	case "ModifyNamespace":
		return sent(id, text, hcn.ModifyNamespaceSettings)
	}
	return hcsadapter.Outcome{}, fmt.Errorf("%w: Hcn%s", errNotOffered, export)
}

func sent[T any](id, text string, send func(string, *T) error) (hcsadapter.Outcome, error) {
	var request T
	if err := json.Unmarshal([]byte(text), &request); err != nil {
		return hcsadapter.Outcome{}, fmt.Errorf("request: %w", err)
	}
	return answer(send(id, &request))
}

// shown is a success. What is raw JSON in a value stays as HNS gave it.
func shown(value any) (hcsadapter.Outcome, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return hcsadapter.Outcome{}, err
	}
	return hcsadapter.Outcome{Output: strings.TrimSuffix(out.String(), "\n")}, nil
}

// answer is what HNS said, out of an error of hcsshim. What is no answer stays an error.
func answer(err error) (hcsadapter.Outcome, error) {
	if err == nil {
		return hcsadapter.Outcome{}, nil
	}
	if said, ok := errors.AsType[*hcn.HcnError](err); ok {
		return hcsadapter.Outcome{HResult: hresult(said.Err), Record: said.Error()}, nil
	}
	if _, ok := errors.AsType[hcn.NetworkNotFoundError](err); ok {
		return hcsadapter.Outcome{HResult: codeNetworkNotFound, Record: err.Error()}, nil
	}
	if _, ok := errors.AsType[hcn.EndpointNotFoundError](err); ok {
		return hcsadapter.Outcome{HResult: codeEndpointNotFound, Record: err.Error()}, nil
	}
	return hcsadapter.Outcome{}, err
}

// hresult undoes that hcsshim takes the facility off codes of Windows itself. None: HNS
// reported success beside an error record.
func hresult(err error) uint32 {
	code, ok := errors.AsType[windows.Errno](err)
	switch {
	case !ok:
		return 0
	case uint32(code) <= 0xffff:
		return 0x80070000 | uint32(code)
	}
	return uint32(code)
}

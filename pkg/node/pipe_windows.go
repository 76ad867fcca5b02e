package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
	"unsafe"

	"github.com/Microsoft/go-winio"
	"golang.org/x/sys/windows"
)

// local is the prefix of the pipes of this computer. Any other pipe is reached over the network.
const local = `\\.\pipe\`

// errNotLocal is the error for the path of a pipe on another computer.
var errNotLocal = errors.New(`is no pipe of this computer, \\.\pipe\NAME`)

// bufferBytes is the size of the system's buffer for each direction of a connection.
const bufferBytes = 4096

// probeTime is how long ListenPipe waits for a connection to the instance that is never served.
const probeTime = 20 * time.Millisecond

// ListenPipe creates the named pipe where the agent answers claims. It fails if the pipe exists. Only SYSTEM and
// administrators can open the pipe.
func ListenPipe(path string) (net.Listener, error) {
	if !isLocal(path) {
		return nil, fmt.Errorf("%s %w", path, errNotLocal)
	}
	l, err := winio.ListenPipe(path, &winio.PipeConfig{SecurityDescriptor: pipeAccess, InputBufferSize: bufferBytes, OutputBufferSize: bufferBytes})
	if err != nil {
		return nil, err
	}
	// winio creates a first instance that only holds the name of the pipe, and never serves it.
	// Windows lets no caller connect to it. Wine connects the first caller to it, which would wait
	// forever, so the agent itself is the first caller.
	ctx, cancel := context.WithTimeout(context.Background(), probeTime) //nolint:forbidigo // it ends by itself
	defer cancel()
	if conn, err := winio.DialPipeContext(ctx, path); err == nil {
		_ = conn.Close() // nothing was said
	}
	return l, nil
}

// DialPipe opens a pipe of this computer. It fails if the owner of the pipe does not have the rights of an agent: any
// process can create the pipe while no agent has it. While the pipe has no free instance, it waits until ctx ends.
func DialPipe(ctx context.Context, path string) (net.Conn, error) {
	if !isLocal(path) {
		return nil, fmt.Errorf("%s %w", path, errNotLocal)
	}
	// winio opens it so that its owner cannot act as us (SECURITY_ANONYMOUS).
	conn, err := winio.DialPipeContext(ctx, path)
	if err != nil {
		return nil, err
	}
	if err := ofAnAgent(conn); err != nil {
		_ = conn.Close() // nothing was said
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return conn, nil
}

func isLocal(path string) bool {
	return len(path) > len(local) && strings.EqualFold(path[:len(local)], local)
}

// ofAnAgent returns an error if the owner of a pipe may lack the rights of an agent. Such a process
// could answer that every pod is ready.
func ofAnAgent(conn net.Conn) error {
	file, ok := conn.(interface{ Fd() uintptr })
	if !ok {
		return errors.New("BUG: a pipe without a handle")
	}
	descriptor, err := windows.GetSecurityInfo(windows.Handle(file.Fd()), windows.SE_KERNEL_OBJECT, windows.OWNER_SECURITY_INFORMATION)
	if err != nil {
		return fmt.Errorf("ask for its owner: %w", err)
	}
	owner, _, err := descriptor.Owner()
	if err != nil {
		return fmt.Errorf("its owner: %w", err)
	}
	if owner == nil || !trusted(owner) {
		return fmt.Errorf("belongs to %v, who is no agent", owner)
	}
	return nil
}

// maxSIDBytes is the value of SECURITY_MAX_SID_SIZE in winnt.h.
const maxSIDBytes = 68

// trusted reports whether an account is SYSTEM, the Administrators group, the account of this
// process, or the default owner of objects that this process creates.
func trusted(account *windows.SID) bool {
	if account.IsWellKnown(windows.WinLocalSystemSid) || account.IsWellKnown(windows.WinBuiltinAdministratorsSid) {
		return true
	}
	own := windows.GetCurrentProcessToken()
	user, err := own.GetTokenUser()
	if err == nil && account.Equals(user.User.Sid) {
		return true
	}
	var owner struct {
		sid  *windows.SID // points into rest
		rest [maxSIDBytes]byte
	}
	size := uint32(unsafe.Sizeof(owner))
	err = windows.GetTokenInformation(own, windows.TokenOwner, (*byte)(unsafe.Pointer(&owner)), size, &size)
	return err == nil && account.Equals(owner.sid)
}

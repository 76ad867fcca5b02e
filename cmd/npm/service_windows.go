package main

import (
	"context"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc"
)

// underManager runs the program under the service manager if that started it.
// A HostProcess container is no service: it is stopped by a console event.
func underManager(ctx context.Context, program func(context.Context) int) int {
	if is, err := svc.IsWindowsService(); err != nil || !is {
		return program(ctx)
	}
	s := &managed{ctx: ctx, program: program}
	if err := svc.Run("", s); err != nil { // the name is that of the one service of the process
		return program(ctx)
	}
	return s.code
}

// managed is the program as a Windows service.
type managed struct {
	ctx     context.Context
	program func(context.Context) int
	code    int
}

// stopWaitMillis is what the manager is told to wait for a stop.
const stopWaitMillis = 30_000

// Execute implements svc.Handler.
func (m *managed) Execute(_ []string, requests <-chan svc.ChangeRequest, status chan<- svc.Status) (specific bool, code uint32) {
	ctx, stop := context.WithCancel(m.ctx)
	defer stop()
	ended := make(chan int, 1)
	go func() { ended <- m.program(ctx) }()
	running := svc.Status{State: svc.Running, Accepts: svc.AcceptStop | svc.AcceptShutdown}
	status <- running
	for {
		select {
		case r := <-requests:
			switch r.Cmd {
			case svc.Stop, svc.Shutdown:
				status <- svc.Status{State: svc.StopPending, WaitHint: stopWaitMillis}
				stop()
			case svc.Interrogate:
				status <- r.CurrentStatus
			default: // nothing else was accepted
			}
		case m.code = <-ended:
			if m.code == 0 {
				return false, uint32(windows.NO_ERROR)
			}
			return true, uint32(m.code) // the manager's recovery actions count it as a failure
		}
	}
}

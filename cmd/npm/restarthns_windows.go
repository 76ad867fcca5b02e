package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/windows/svc"
	"golang.org/x/sys/windows/svc/mgr"

	"github.com/winnpm/winnpm/pkg/doctor"
)

// restartHNS is the service of HNS for the doctor.
type restartHNS struct{}

func newRestarter() doctor.Service { return restartHNS{} }

// PID implements doctor.Service.
func (restartHNS) PID() (uint32, error) { return hnsPID() }

// servicePoll is the time between two looks at the state of a service.
const servicePoll = 200 * time.Millisecond

// Restart implements doctor.Service. It starts the service also when ctx ends after the stop.
func (restartHNS) Restart(ctx context.Context) error {
	manager, err := mgr.Connect()
	if err != nil {
		return fmt.Errorf("service manager: %w", err)
	}
	defer func() { _ = manager.Disconnect() }() // it has done its work
	service, err := manager.OpenService("hns")
	if err != nil {
		return fmt.Errorf("service hns: %w", err)
	}
	defer service.Close()
	if _, err := service.Control(svc.Stop); err != nil {
		return fmt.Errorf("stop the service hns: %w", err)
	}
	stopped := waitService(ctx, service, svc.Stopped)
	if err := service.Start(); err != nil {
		return fmt.Errorf("start the service hns: %w", err)
	}
	if stopped != nil {
		return stopped
	}
	return waitService(ctx, service, svc.Running)
}

// waitService waits until a service is in a state, for as long as ctx lasts.
func waitService(ctx context.Context, service *mgr.Service, want svc.State) error {
	ticker := time.NewTicker(servicePoll)
	defer ticker.Stop()
	for {
		status, err := service.Query()
		switch {
		case err != nil:
			return fmt.Errorf("state of the service hns: %w", err)
		case status.State == want:
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("the service hns is in state %d, not %d: %w", status.State, want, context.Cause(ctx))
		}
	}
}

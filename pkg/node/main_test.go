package node

import (
	"context"
	"net/netip"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if name := os.Getenv(holds); name != "" {
		holdLock(name)
		return
	}
	// go-winio starts this goroutine with its first pipe and keeps it.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/Microsoft/go-winio.ioCompletionProcessor"))
}

// claimerFunc is a Claimer.
type claimerFunc func(ctx context.Context, c Claim) error

func (f claimerFunc) Claim(ctx context.Context, c Claim) error { return f(ctx, c) }

// never makes no endpoint ready.
func never(ctx context.Context, _ Claim) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func ready(context.Context, Claim) error { return nil }

func claimOfTest() Claim {
	return Claim{
		UID: "8d3a6d7e-5d33-4c5a-9c61-0a3b2f1f9f10", Namespace: "shop", Name: "api-0", ContainerID: "0c4f", Netns: "{6B0D}",
		Addresses: []netip.Addr{netip.MustParseAddr("10.1.0.7"), netip.MustParseAddr("fd00::7")}, Endpoint: "0c4f_azure",
		Wait: 10 * time.Second,
	}
}

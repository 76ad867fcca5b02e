package dataplane

import (
	"time"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
)

// Config is what a Dataplane needs.
type Config struct {
	Client hns.Client
	Node   string // for the dump only
	// Now reads the clock.
	Now func() time.Time
	// GracePeriod is how long a set stays in HNS after nothing needs it.
	GracePeriod time.Duration
	// MaxBatchedACLs is the number of ACLs in one Add; 0 means 30.
	MaxBatchedACLs int
	// MaxRepairs is the number of endpoints that one transaction writes only
	// because somebody else changed them; the next goes on. 0 means 32.
	MaxRepairs int
	// BaseACLs are rules that every local endpoint with a pod gets, isolated or
	// not; they have our prefix. See CalicoBase.
	BaseACLs []hns.ACL
	// Unchecked turns the versions of endpoints off: writes are neither compared
	// with what is there nor read back. See package versioned.
	Unchecked bool
	// LookPeriod is how long it takes until each object was looked at once; 0: a
	// minute.
	LookPeriod time.Duration
	// Budgets bound what policies come to, in members and in HNS; 0 means the default.
	Budgets policy.Budgets
}

const (
	defaultBatchedACLs = 30
	defaultRepairs     = 32
	keptReports        = 20
)

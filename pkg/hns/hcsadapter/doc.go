// Package hcsadapter is the hns.Client that talks to the real Host Networking
// Service, through github.com/Microsoft/hcsshim/hcn.
//
// The portable files hold everything that can go wrong: one worker that does
// the calls (worker.go), the JSON on the wire (wire.go), what a code means
// (codes.go), and what a failed call may have done all the same (adapter.go,
// writes.go). The files for Windows call hcn and translate its values; nothing
// else in WinNPM imports hcsshim.
//
// Errors are decided by HRESULT, never by text: the text depends on the
// message tables of the system, and hcn.IsNotFoundError is false for the codes
// of a real HNS (azure-container-networking#1560).
//
// hcn leaves a handle open when a call fails after its Open, and offers no way
// to close it: a refused write costs one handle of HNS until the process ends.
// So a request that cannot succeed is refused here, before it is sent.
package hcsadapter

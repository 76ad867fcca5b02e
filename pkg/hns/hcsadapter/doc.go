// Package hcsadapter is the hns.Client that talks to the real Host Networking
// Service. It calls the exports of HNS's DLLs itself, those that Microsoft's
// hcsshim calls too, and no more of them than an operation needs.
//
// The portable files hold everything that can go wrong: one worker that does
// the calls (worker.go), the calls that a request takes (service.go), the JSON
// on the wire (wire.go), what a code means (codes.go), and what a failed call
// may have done all the same (adapter.go, writes.go). The file for Windows has
// one function per export, which knows pointers, texts and who frees them.
//
// Errors are decided by HRESULT, never by text: the text depends on the
// message tables of the system.
package hcsadapter

// Package hcsadapter is the hns.Client for the real Host Networking Service. It calls the exports
// of HNS's DLLs directly, the same as Microsoft's hcsshim, and no more of them than an operation
// needs.
//
// The portable files hold everything that can go wrong: the worker that makes the calls
// (worker.go), the calls of a request (service.go), the JSON on the wire (wire.go), the meaning of
// codes (codes.go), and the possible effects of a failed call (adapter.go, writes.go). Several
// networks are handled as one in found.go and foundsets.go. The Windows file has one function per
// export, which handles pointers, texts and their ownership.
//
// Errors are decided by HRESULT, never by text: the text depends on the message tables of the
// system.
package hcsadapter

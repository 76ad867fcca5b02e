// Package e2e runs the built agent against a real API server and store, with
// the rights of deploy/ and nothing more, and asks it for verdicts.
//
// There is no controller manager and no kubelet: the suite creates each
// default ServiceAccount, writes the status of pods, deletes them with grace
// period 0 and finalizes namespaces itself. "make e2e" builds and runs it all.
package e2e

// Package controllers turns what the API server says into transactions for the
// dataplane.
//
// Informers keep of each object what is of use, put the key of what changed into
// one queue, and do nothing else. One worker takes every pending key, reads the
// objects' present state from the informers' stores, builds one transaction and
// hands it over: the dataplane shares its pods and policies. A lone event is
// applied at once; of many that come in a row HNS takes a fifth of its time. Retries
// are keys of the same queue. Between transactions the worker reads HNS through
// Observe, and adds a key when that finds work.
//
// The queue is never locked while a transaction is applied: events keep coming
// in while HNS hangs.
package controllers

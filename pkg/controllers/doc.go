// Package controllers turns what the API server says into transactions for the
// dataplane.
//
// Informers put the key of what changed into one queue, nothing else. One
// worker drains every pending key, reads the objects' present state from the
// informers' stores, builds one transaction and hands it over. A lone event is
// applied at once; under load there is one transaction per apply interval,
// however many events come in. Retries and the reconciler's observations are
// keys of the same queue, so that nothing else ever calls the dataplane.
//
// The queue is never locked while a transaction is applied: events keep coming
// in while HNS hangs.
package controllers

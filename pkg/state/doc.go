// Package state has the dataplane's state as plain values: a dump, the report of a
// transaction, active warnings, and the numbers for Prometheus. The dataplane makes
// them. Whoever shows or explains its state reads them from here, and needs nothing of
// the dataplane itself. A value has no lock and does no I/O.
package state

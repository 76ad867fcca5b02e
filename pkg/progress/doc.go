// Package progress notes where the transaction is that runs, for whoever asks while the
// state is locked, and which piece of it was slow.
package progress

// Package explain says why a connection is allowed or blocked, from a dump
// alone: the verdict of each end over what is in HNS and over what should be
// there, the rules that decide, the sets and why each end is in them or not,
// and the smallest change that would have allowed it.
//
// A dump is a value that may come from anywhere: nothing in it is trusted to
// fit together. What cannot be told from it is unknown, never guessed.
package explain

// Package shim is HNS by way of Microsoft's hcsshim: a second binding beside the one of
// pkg/hns/hcsadapter, with the same calls. It is the second opinion of npm doctor, and what
// HNSBinding: hcsshim makes an agent use.
//
// The package hcn of hcsshim opens and closes objects itself, so handles here are numbers of
// ours; it reads each object that it lists, and reads an object again after each write. It
// does not tell the code of an object that is not there.
package shim

// Package render turns what policies mean into the ACLs of one endpoint: Policy those of a
// NetworkPolicy, Lines those of an ordered list of all tiers. SizeOf and Cost tell what they
// come to without making them. Everything here is a value.
package render

// Package drift is what others do to our objects in HNS: which were found changed, how
// often of late, and which are right again; and how HNS itself spells what it was sent,
// which is no change. It has values only: whoever uses them tells the time, and says what
// is right.
package drift

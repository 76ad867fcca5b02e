// Package replay plays a recording again. The dataplane of this build gets the recorded
// events, and its calls get the recorded answers of HNS. A simulator is kept in the state
// that these answers should have led to. The package reports every difference.
//
// There are four kinds of differences. HNS has something else than our writes imply:
// somebody else wrote, or HNS lost it. HNS answered otherwise than the simulator would.
// This build does something else than the recorded one did. And the same steps ended in
// another state. After each difference the replay goes on from what was recorded, so that
// one does not cause others.
//
// A recording that does not reach back to the start of its process begins with a dump,
// which is not complete. Whatever may follow from that is a note, not a difference.
//
// Nothing depends on the time of the day or on the order of maps: the same
// recording gives the same result.
package replay

// Package replay plays a recording again: the dataplane of this build gets what
// came in, call by call it is answered as HNS answered then, and beside it the
// simulator is brought to where those answers should have led. Where the two
// part, it says so.
//
// Four things are told apart. HNS has something else than our writes imply:
// somebody else wrote, or HNS lost it. HNS answered otherwise than the simulator
// would. This build does something else than the one that was recorded. And the
// same steps ended in another state. After each the play goes on from what was
// recorded, so that one difference does not bring forth others.
//
// A recording that does not reach back to the start of its process begins with a
// dump, which does not have everything: what may follow from that is a note, not
// a difference.
//
// Nothing depends on the time of the day or on the order of maps: the same
// recording gives the same result.
package replay

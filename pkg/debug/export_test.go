package debug

// What tests of other packages use.
var (
	WriteManager = writeManager
	Sample       = sample
)

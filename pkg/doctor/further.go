package doctor

// further are the phases that somebody has to ask for, on the doctor's own network.
func (e *exam) further() {
	e.askPackets()
}

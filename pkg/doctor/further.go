package doctor

// further are the phases that somebody has to ask for, on the doctor's own network.
func (e *exam) further() {
	e.askPackets()
	e.askScale()
	e.askRestart()
}

// onlyPod leaves one endpoint in the network, without rules, and no set.
func (e *exam) onlyPod() {
	for _, id := range []string{ownTwin, ownLoose, ownRemote} { // one has the pod's address
		e.call("", "HcnDeleteEndpoint", Arguments{ID: id})
	}
	e.clearRules()
	e.dropSets()
}

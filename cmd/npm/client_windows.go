package main

import "github.com/winnpm/winnpm/pkg/hns/hcsadapter"

// newHNS connects to the Host Networking Service of this system.
func newHNS(o hcsadapter.Options) (service, error) {
	a, err := hcsadapter.New(o)
	if err != nil {
		return nil, err
	}
	return a, nil
}

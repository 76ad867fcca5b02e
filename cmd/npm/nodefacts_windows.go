package main

import (
	"strconv"

	"golang.org/x/sys/windows/registry"

	"github.com/winnpm/winnpm/pkg/doctor"
)

// nodeFacts reads what Windows says of itself, and the switches of HNS.
func nodeFacts() doctor.Node {
	var node doctor.Node
	if key, err := registry.OpenKey(registry.LOCAL_MACHINE, `SOFTWARE\Microsoft\Windows NT\CurrentVersion`, registry.QUERY_VALUE); err == nil {
		defer key.Close()
		node.OS, node.Build, node.Revision = value(key, "ProductName"), value(key, "CurrentBuildNumber"), value(key, "UBR")
	}
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, `SYSTEM\CurrentControlSet\Services\hns\State`, registry.QUERY_VALUE)
	if err != nil {
		return node
	}
	defer key.Close()
	names, err := key.ReadValueNames(0)
	if err != nil {
		return node
	}
	node.Keys = map[string]string{}
	for _, name := range names {
		node.Keys[name] = value(key, name)
	}
	return node
}

// value is a text or a number as a text; empty: there is none.
func value(key registry.Key, name string) string {
	if text, _, err := key.GetStringValue(name); err == nil {
		return text
	}
	if number, _, err := key.GetIntegerValue(name); err == nil {
		return strconv.FormatUint(number, 10)
	}
	return ""
}

package hns_test

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
)

// TestCanonicalFields has one row per meaning: the canonical text, and what else
// says the same.
func TestCanonicalFields(t *testing.T) {
	fields := map[string][]string{"addresses": {"LocalAddresses", "RemoteAddresses"}, "ports": {"LocalPorts", "RemotePorts"}}
	for _, test := range []struct {
		fields []string
		want   string
		spelt  []string
	}{
		{fields["addresses"], "", []string{" ", "*", "any", "ANY", " Any ", "0.0.0.0/0", "0.0.0.0/0.0.0.0", "10.0.0.1/0", "0.0.0.0-255.255.255.255", "0.0.0.0/1,128.0.0.0/1", "10.0.0.1,*"}},
		{fields["addresses"], "10.9.0.1", []string{"10.9.0.1/32", "10.9.0.1/255.255.255.255", "10.9.0.1-10.9.0.1", " 10.9.0.1", "10.9.0.1,10.9.0.1/32", "10.9.0.1 - 10.9.0.1"}},
		{fields["addresses"], "10.0.0.0/8", []string{"10.0.0.0/255.0.0.0", "10.1.2.3/8", "10.1.2.3/255.0.0.0", "10.0.0.0/08", "10.0.0.0-10.255.255.255", "10.0.0.0/9,10.128.0.0/9", "10.128.0.0/9 , 10.0.0.0/9", "10.0.0.0/8,10.1.0.0/16", "10.1.0.0/16,10.0.0.0/8"}},
		{fields["addresses"], "0.0.0.0/1", []string{"0.0.0.0/2,64.0.0.0/2", "127.255.255.255/1"}},
		{fields["addresses"], "10.0.0.1,10.0.0.2/31,10.0.0.4", []string{"10.0.0.1-10.0.0.4", "10.0.0.4,10.0.0.3,10.0.0.2,10.0.0.1", "10.0.0.1,10.0.0.2,10.0.0.3,10.0.0.4"}},
		{fields["addresses"], "255.255.255.254/31", []string{"255.255.255.255,255.255.255.254"}},
		{fields["addresses"], "azure-npm-1,azure-npm-2b", []string{"azure-npm-2b,azure-npm-1", "AZURE-npm-2B, Azure-NPM-1", "azure-npm-1,azure-npm-1,azure-npm-2b"}},
		{fields["ports"], "", []string{" ", "*", "any", "Any", "0-65535", "1-65535", "1-80,81-65535", "80,*"}},
		{fields["ports"], "80", []string{"80-80", "080", " 80 ", "80,80", "80,80-80"}},
		{fields["ports"], "80-81", []string{"81,80", "80,81", "80 - 81", "80-080,0081"}},
		{fields["ports"], "1-80", []string{"0-80", "79-80,1-78"}},
		{fields["ports"], "80,443,8000-9000", []string{"443,80,8000-9000", "8000-8500,8400-9000,443, 80"}},
		{fields["ports"], "65535", []string{"65535-65535"}},
		{[]string{"Protocols"}, "", []string{"256", "0256", "any", "ANY", "*", " "}},
		{[]string{"Protocols"}, "6", []string{"TCP", "tcp", " Tcp", "06"}},
		{[]string{"Protocols"}, "17", []string{"UDP", "udp", "017"}},
		{[]string{"Protocols"}, "132", []string{"SCTP", "sctp"}},
		{[]string{"Protocols"}, "1", []string{"ICMP", "icmp"}},
		{[]string{"Protocols"}, "0", []string{"00"}}, // a protocol like others
		{[]string{"RuleType"}, "Switch", []string{"", "switch", "SWITCH "}},
		{[]string{"RuleType"}, "Host", []string{"host"}},
		{[]string{"Action"}, "Allow", []string{"allow", "ALLOW"}},
		{[]string{"Action"}, "Block", []string{"block"}},
		{[]string{"Direction"}, "In", []string{"in", "IN"}},
		{[]string{"Direction"}, "Out", []string{"out"}},
		{[]string{"ID"}, "azure-acl-x.web", []string{"AZURE-ACL-X.WEB", "Azure-Acl-x.web"}},
	} {
		for _, field := range test.fields {
			set := func(text string) (a hns.ACL) {
				reflect.ValueOf(&a).Elem().FieldByName(field).SetString(text)
				return a
			}
			for _, text := range append(test.spelt, test.want) {
				spelt := set(text)
				got := reflect.ValueOf(spelt.Canonical()).FieldByName(field).String()
				require.Equal(t, test.want, got, "%s %q", field, text)
				require.Equal(t, set(text), spelt, "the receiver stays")
			}
		}
	}
}

// TestCanonicalLeaves: what cannot be read keeps its text and so differs from
// everything that can; so does what means something else to somebody else.
func TestCanonicalLeaves(t *testing.T) {
	for field, texts := range map[string][]string{
		"LocalAddresses": {
			"10.0.0", "10.0.0.256", "10.0.0.1.2", "010.0.0.1", "10.0.0.01", "10.0.0.1/33", "10.0.0.1/", "10.0.0.1/-1", "10.0.0.1/255.0.255.0",
			"10.0.0.1/255.0.0.0.0", "10.0.0.2-10.0.0.1", "10.0.0.1-", "10.0.0.1-10.0.0.2-10.0.0.3", "10.0.0.1 10.0.0.2", "10.0.0.1,,10.0.0.2", ",",
			"fd00::1", "::/0", "10.0.0.1,fd00::1", "everyone", "azure-npm", "calico-1", "azure-npm-2,10.0.0.1", "azure-npm-2,calico-1", "Azure-NPM-2,",
		},
		"LocalPorts":  {"0", "0-0", "65536", "80-65536", "81-80", "80-", "-80", "+80", "80,", "80;81", "http", "80-81-82", "1e3"},
		"Protocols":   {"257", "-1", "6,17", "GRE", "6.0"},
		"Action":      {"Pass", "Allowed"},
		"Direction":   {"Both"},
		"RuleType":    {"Port"},
		"ID":          {"Calico-x", "azure-ACL", " azure-acl-x"},
		"RemotePorts": {"0"}, "RemoteAddresses": {"fd00::1"},
	} {
		for _, text := range texts {
			var a hns.ACL
			reflect.ValueOf(&a).Elem().FieldByName(field).SetString(text)
			got := reflect.ValueOf(a.Canonical()).FieldByName(field).String()
			require.Equal(t, text, got, field)
			if field != "ID" {
				reflect.ValueOf(&a).Elem().FieldByName(field).SetString(" " + text + "\t")
				got = reflect.ValueOf(a.Canonical()).FieldByName(field).String()
				require.Equal(t, text, got, field)
			}
		}
	}
}

func TestCanonicalValue(t *testing.T) {
	for text, want := range map[string]string{
		"10.9.0.1": "10.9.0.1", "10.9.0.1/32": "10.9.0.1", " 10.9.0.1 ": "10.9.0.1", "10.9.0.1-10.9.0.1": "10.9.0.1",
		"10.9.0.1/255.255.255.255": "10.9.0.1", "10.0.0.0/8": "10.0.0.0/8", "10.1.0.0/255.0.0.0": "10.0.0.0/8",
		"10.0.0.0-10.0.0.255": "10.0.0.0/24", "0.0.0.0/0": "0.0.0.0/0", "0.0.0.0-255.255.255.255": "0.0.0.0/0", "128.0.0.0/1": "128.0.0.0/1",
	} {
		got, ok := hns.CanonicalValue(text)
		require.True(t, ok, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "any", " * ", "10.0.0.1-10.0.0.3", "10.0.0.1,10.0.0.2", "azure-npm-1", "fd00::1", "10.0.0.1/33"} {
		got, ok := hns.CanonicalValue(text)
		require.False(t, ok, text)
		require.Empty(t, got, text)
	}
}

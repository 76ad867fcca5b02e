package manifest_test

// badPolicies are the policies that validation refuses.
var badPolicies = []badInput{
	{
		"invalid cidr",
		np("{podSelector: {}, ingress: [{}, {from: [{podSelector: {}}, {ipBlock: {cidr: 10.0.0.0/33}}]}]}"),
		`document 1: NetworkPolicy x/p: spec.ingress[1].from[1].ipBlock.cidr: "10.0.0.0/33" is not a CIDR; write an address and a prefix length, like 10.0.0.0/8`,
	},
	{
		"no prefix length",
		np("{podSelector: {}, egress: [{to: [{ipBlock: {cidr: 10.0.0.1}}]}]}"),
		`document 1: NetworkPolicy x/p: spec.egress[0].to[0].ipBlock.cidr: "10.0.0.1" is not a CIDR; write an address and a prefix length, like 10.0.0.0/8`,
	},
	{
		"no cidr",
		np("{podSelector: {}, egress: [{to: [{ipBlock: {}}]}]}"),
		`document 1: NetworkPolicy x/p: spec.egress[0].to[0].ipBlock.cidr: "" is not a CIDR; write an address and a prefix length, like 10.0.0.0/8`,
	},
	{
		"leading zero in a cidr",
		np("{podSelector: {}, egress: [{to: [{ipBlock: {cidr: 010.0.0.0/8}}]}]}"),
		`document 1: NetworkPolicy x/p: spec.egress[0].to[0].ipBlock.cidr: "010.0.0.0/8" is not a CIDR; write an address and a prefix length, like 10.0.0.0/8`,
	},
	{
		"ipv4 within ipv6",
		np("{podSelector: {}, egress: [{to: [{ipBlock: {cidr: '::ffff:10.0.0.0/104'}}]}]}"),
		`document 1: NetworkPolicy x/p: spec.egress[0].to[0].ipBlock.cidr: "::ffff:10.0.0.0/104" is not a CIDR; write an address and a prefix length, like 10.0.0.0/8`,
	},
	{
		"except outside",
		np("{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/16, 11.0.0.0/16]}}]}]}"),
		`document 1: NetworkPolicy x/p: spec.ingress[0].from[0].ipBlock.except[1]: 11.0.0.0/16 is not a smaller part of 10.0.0.0/8; correct it, or remove it from the list`,
	},
	{
		"except is all of it",
		np("{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/8, except: [10.0.0.0/8]}}]}]}"),
		`document 1: NetworkPolicy x/p: spec.ingress[0].from[0].ipBlock.except[0]: 10.0.0.0/8 is not a smaller part of 10.0.0.0/8; correct it, or remove it from the list`,
	},
	{
		"except is more than it",
		np("{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 10.1.0.0/16, except: [10.0.0.0/8]}}]}]}"),
		`document 1: NetworkPolicy x/p: spec.ingress[0].from[0].ipBlock.except[0]: 10.0.0.0/8 is not a smaller part of 10.1.0.0/16; correct it, or remove it from the list`,
	},
	{
		"except is all of it when masked",
		np("{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/8, except: [10.3.0.0/8]}}]}]}"),
		`document 1: NetworkPolicy x/p: spec.ingress[0].from[0].ipBlock.except[0]: 10.0.0.0/8 is not a smaller part of 10.0.0.0/8; correct it, or remove it from the list`,
	},
	{
		"except of the other family",
		np("{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 0.0.0.0/0, except: ['2001:db8::/32']}}]}]}"),
		`document 1: NetworkPolicy x/p: spec.ingress[0].from[0].ipBlock.except[0]: 2001:db8::/32 is not a smaller part of 0.0.0.0/0; correct it, or remove it from the list`,
	},
	{
		"invalid except",
		np("{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/8, except: [x]}}]}]}"),
		`document 1: NetworkPolicy x/p: spec.ingress[0].from[0].ipBlock.except[0]: "x" is not a CIDR; write an address and a prefix length, like 10.0.0.0/8`,
	},
	{
		"empty peer",
		np("{podSelector: {}, egress: [{to: [{podSelector: {}}, {}]}]}"),
		`document 1: NetworkPolicy x/p: spec.egress[0].to[1]: the peer is empty; give a podSelector, a namespaceSelector or an ipBlock`,
	},
	{
		"null peer",
		np("{podSelector: {}, egress: [{to: [null]}]}"),
		`document 1: NetworkPolicy x/p: spec.egress[0].to[0]: the peer is empty; give a podSelector, a namespaceSelector or an ipBlock`,
	},
	{
		"block and selector",
		np("{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/8}, podSelector: {}}]}]}"),
		`document 1: NetworkPolicy x/p: spec.ingress[0].from[0]: ipBlock stands beside a selector; make two peers of them`,
	},
	{
		"port 0",
		np("{podSelector: {}, ingress: [{ports: [{port: 0}]}]}"),
		`document 1: NetworkPolicy x/p: spec.ingress[0].ports[0].port: 0 is no port number; use 1 to 65535`,
	},
	{
		"port too big",
		np("{podSelector: {}, egress: [{ports: [{port: 80}, {port: 65536}]}]}"),
		`document 1: NetworkPolicy x/p: spec.egress[0].ports[1].port: 65536 is no port number; use 1 to 65535`,
	},
	{
		"bad port name",
		np("{podSelector: {}, ingress: [{ports: [{port: '80'}]}]}"),
		`document 1: NetworkPolicy x/p: spec.ingress[0].ports[0].port: "80" is no port name; use at most 15 of a-z, 0-9 and '-', with a letter, and write a number without quotes`,
	},
	{
		"endPort below port",
		np("{podSelector: {}, ingress: [{ports: [{port: 90, endPort: 80}]}]}"),
		`document 1: NetworkPolicy x/p: spec.ingress[0].ports[0].endPort: 80 is below port 90; swap them`,
	},
	{
		"endPort too big",
		np("{podSelector: {}, ingress: [{ports: [{port: 90, endPort: 70000}]}]}"),
		`document 1: NetworkPolicy x/p: spec.ingress[0].ports[0].endPort: 70000 is no port number; use 1 to 65535`,
	},
	{
		"endPort beside a name",
		np("{podSelector: {}, ingress: [{ports: [{port: http, endPort: 80}]}]}"),
		`document 1: NetworkPolicy x/p: spec.ingress[0].ports[0].endPort: stands beside the named port "http"; give the first port of the range as a number`,
	},
	{
		"endPort alone",
		np("{podSelector: {}, ingress: [{ports: [{endPort: 80}]}]}"),
		`document 1: NetworkPolicy x/p: spec.ingress[0].ports[0].endPort: stands without a port; give the first port of the range as port`,
	},
	{
		"unknown protocol",
		np("{podSelector: {}, ingress: [{ports: [{protocol: tcp, port: 80}]}]}"),
		`document 1: NetworkPolicy x/p: spec.ingress[0].ports[0].protocol: unknown protocol "tcp"; use TCP, UDP or SCTP`,
	},
	{
		"empty protocol",
		np("{podSelector: {}, ingress: [{ports: [{protocol: '', port: 80}]}]}"),
		`document 1: NetworkPolicy x/p: spec.ingress[0].ports[0].protocol: unknown protocol ""; use TCP, UDP or SCTP`,
	},
	{
		"unknown operator",
		np("{podSelector: {matchExpressions: [{key: a, operator: Equals, values: [b]}]}}"),
		`document 1: NetworkPolicy x/p: spec.podSelector.matchExpressions[0].operator: Invalid value: "Equals": not a valid selector operator`,
	},
	{
		"In without values",
		np("{podSelector: {}, ingress: [{from: [{namespaceSelector: {matchExpressions: [{key: a, operator: In}]}}]}]}"),
		"document 1: NetworkPolicy x/p: spec.ingress[0].from[0].namespaceSelector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
	},
	{
		"Exists with values",
		np("{podSelector: {}, egress: [{to: [{podSelector: {matchExpressions: [{key: a, operator: Exists, values: [b]}]}}]}]}"),
		"document 1: NetworkPolicy x/p: spec.egress[0].to[0].podSelector.matchExpressions[0].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
	},
	{
		"bad key in a selector",
		np("{podSelector: {matchExpressions: [{key: 'a b', operator: Exists}]}}"),
		`document 1: NetworkPolicy x/p: spec.podSelector.matchExpressions[0].key: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName', or 'my.name', or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
	},
	{
		"bad value in a selector",
		np("{podSelector: {matchExpressions: [{key: a, operator: In, values: [b, c_]}]}}"),
		`document 1: NetworkPolicy x/p: spec.podSelector.matchExpressions[0].values[1]: Invalid value: "c_": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue', or 'my_value', or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`,
	},
	{
		"bad value in matchLabels",
		np("{podSelector: {matchLabels: {a: b c}}}"),
		`document 1: NetworkPolicy x/p: spec.podSelector.matchLabels: Invalid value: "b c": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue', or 'my_value', or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`,
	},
	{
		"value in a selector not a string",
		np("{podSelector: {matchExpressions: [{key: a, operator: In, values: [1]}]}}"),
		`document 1: NetworkPolicy x/p: spec.podSelector.matchExpressions[0].values[0]: is the number 1, must be a string; put it in quotes`,
	},
	{
		"unknown policy type",
		np("{podSelector: {}, policyTypes: [ingress]}"),
		`document 1: NetworkPolicy x/p: spec.policyTypes[0]: unknown policy type "ingress"; use Ingress or Egress`,
	},
	{
		"three policy types",
		np("{podSelector: {}, policyTypes: [Ingress, Egress, Ingress]}"),
		`document 1: NetworkPolicy x/p: spec.policyTypes: has 3 entries; give Ingress, Egress or both`,
	},
}

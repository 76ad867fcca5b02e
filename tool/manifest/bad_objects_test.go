package manifest_test

// badInput is a text, and the error without the name of the file.
type badInput struct{ name, text, want string }

// badObjects are texts, objects of other kinds, and policies whose fields are
// not those of the API.
var badObjects = []badInput{
	{
		"broken yaml",
		"# one\n---\n" + podText + "---\n# two\nkind: Pod\n  bad: 1\n",
		`document 2: broken YAML, line 9: mapping values are not allowed in this context; correct the text`,
	},
	{
		"text after an end marker",
		podText + "...\nkind: Pod\n",
		`document 1: in the document that begins in line 1 there is text behind the object, which would not be read; write '---' before it`,
	},
	{
		"text behind an object in braces",
		"{apiVersion: v1, kind: Namespace, metadata: {name: x}} # fine\n---\n# a comment\n{apiVersion: v1, kind: Namespace, metadata: {name: y}}\nkind: Pod\n",
		`document 2: in the document that begins in line 2 there is text behind the object, which would not be read; write '---' before it`,
	},
	{
		"broken yaml after an end marker",
		podText + "...\n---\nkind: Pod\n  bad: 1\n",
		`document 2: broken YAML, line 7: mapping values are not allowed in this context; correct the text`,
	},
	{
		"broken yaml, unclosed",
		"kind: Pod\nmetadata: {name: [a\n",
		`document 1: broken YAML, line 2: did not find expected ',' or ']'; correct the text`,
	},
	{
		"tab",
		"kind: Pod\n\tmetadata: {}\n",
		`document 1: broken YAML, line 2: found a tab character that violates indentation; correct the text`,
	},
	{
		"unknown alias",
		"kind: *nobody\n",
		`document 1: broken YAML, in the document that begins in line 1: an alias (*) without its anchor (&): a value that begins with * needs quotes; correct the text`,
	},
	{
		"broken json",
		"{\"kind\": \"Pod\",\n \"metadata\": {\"name\" \"a\"}}",
		`document 1: broken JSON, line 2: invalid character '"' after object key; correct the text`,
	},
	{
		"key twice in yaml",
		"kind: Pod\napiVersion: v1\nkind: Pod\n",
		`document 1: broken YAML, line 3: key "kind" already set in map; correct the text`,
	},
	{
		"key twice in json",
		`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","labels":{"k":"1","k":"2"}}}`,
		`document 1: metadata.labels.k: the key occurs twice; keep one of them`,
	},
	{
		"not utf-8",
		"kind: \xff\n",
		`the text is not UTF-8; save it as UTF-8`,
	},
	{
		"not an object",
		"just text\n",
		`document 1: must be an object with apiVersion, kind and metadata`,
	},
	{
		"a list of objects",
		"- kind: Pod\n- kind: Pod\n",
		`document 1: must be an object with apiVersion, kind and metadata`,
	},
	{
		"no kind",
		"apiVersion: v1\nmetadata: {name: a}\n",
		`document 1: kind: is missing or no text; say which kind of object this is`,
	},
	{
		"no version",
		"kind: Pod\nmetadata: {name: a}\n",
		`document 1: Pod a: apiVersion: is missing or no text; give the version of the kind, as kubectl explain pod shows it`,
	},
	{
		"kind is a number",
		"apiVersion: v1\nkind: 7\n",
		`document 1: kind: is missing or no text; say which kind of object this is`,
	},
	{
		"broken json, cut off",
		"{\"kind\": \"Pod\",\n\n",
		`document 1: broken JSON, line 3: unexpected EOF; correct the text`,
	},
	{
		"items are no list",
		"apiVersion: v1\nkind: List\nitems: 7\n",
		`document 1: List: items: is the number 7, must be a list`,
	},
	{
		"no name",
		"apiVersion: v1\nkind: Pod\nmetadata: {generateName: a-}\n",
		`document 1: Pod: metadata.name: is missing; give the object a name`,
	},
	{
		"bad pod name",
		"apiVersion: v1\nkind: Pod\nmetadata: {name: Web_1}\n",
		`document 1: Pod Web_1: metadata.name: Invalid value: "Web_1": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`,
	},
	{
		"bad namespace",
		"apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: a.b}\n",
		`document 1: Pod a.b/a: metadata.namespace: Invalid value: "a.b": must not contain dots`,
	},
	{
		"bad namespace name",
		"apiVersion: v1\nkind: Namespace\nmetadata: {name: a.b}\n",
		`document 1: Namespace a.b: metadata.name: Invalid value: "a.b": must not contain dots`,
	},
	{
		"node in a namespace",
		"apiVersion: v1\nkind: Node\nmetadata: {name: a, namespace: b}\n",
		`document 1: Node b/a: metadata.namespace: Forbidden: not allowed on this type`,
	},
	{
		"label value not a string",
		"apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: {tier: 1}}\n",
		`document 1: Pod a: metadata.labels[tier]: is the number 1, must be a string; put it in quotes`,
	},
	{
		"control characters in a key",
		`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","\n\u001b[31m":1}}`,
		`document 1: Pod a: metadata. [31m: unknown field; correct its name or place, or remove it`,
	},
	{
		"label value a truth value",
		"apiVersion: v1\nkind: Namespace\nmetadata: {name: a, labels: {public: yes}}\n",
		`document 1: Namespace a: metadata.labels[public]: is the truth value true, must be a string; put it in quotes`,
	},
	{
		"bad label key",
		"apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: {a/b/c: x}}\n",
		`document 1: Pod a: metadata.labels: Invalid value: "a/b/c": a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName', or 'my.name', or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')`,
	},
	{
		"bad label values, the first in order",
		"apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: {a: '-x', b: '-y', c: '-z'}}\n",
		`document 1: Pod a: metadata.labels: Invalid value: "-x": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue', or 'my_value', or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`,
	},
	{
		"bad creation time",
		"apiVersion: v1\nkind: Pod\nmetadata: {name: a, creationTimestamp: yesterday}\n",
		`document 1: Pod a: metadata.creationTimestamp: is the string "yesterday", which is not a value of this field: parsing time "yesterday" as "2006-01-02T15:04:05Z07:00": cannot parse "yesterday" as "2006"; correct it`,
	},
	{
		"twice",
		pod("{}") + "---\n" + podText,
		`document 2: Pod x/p: metadata.name: the object is there twice, first in stdin document 1; remove or rename one`,
	},
	{
		"twice, once by default",
		"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: default}\n",
		`document 2: Pod default/a: metadata.name: the object is there twice, first in stdin document 1; remove or rename one`,
	},
	{
		"policy of another version",
		"apiVersion: networking.k8s.io/v1beta1\nkind: NetworkPolicy\nmetadata: {name: a}\n",
		`document 1: NetworkPolicy a: apiVersion: "networking.k8s.io/v1beta1" is not supported for this kind; use networking.k8s.io/v1`,
	},
	{
		"policy of another group",
		"apiVersion: network.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: a}\n",
		`document 1: NetworkPolicy a: apiVersion: "network.k8s.io/v1" is not supported for this kind; use networking.k8s.io/v1`,
	},
	{
		"removed version",
		"apiVersion: extensions/v1beta1\nkind: Deployment\nmetadata: {name: a}\n",
		`document 1: Deployment a: apiVersion: "extensions/v1beta1" is not supported for this kind; use apps/v1`,
	},
	{
		"pod of another version",
		"apiVersion: v2\nkind: Pod\nmetadata: {name: a}\n",
		`document 1: Pod a: apiVersion: "v2" is not supported for this kind; use v1`,
	},
	{
		"unknown field",
		np("{podSelector: {}, ingres: [{}]}"),
		`document 1: NetworkPolicy x/p: spec.ingres: unknown field; did you mean ingress?`,
	},
	{
		"unknown field far from any",
		np("{podSelector: {}, nonsense: 1}"),
		`document 1: NetworkPolicy x/p: spec.nonsense: unknown field; correct its name or place, or remove it`,
	},
	{
		"field in another case",
		np("{podselector: {}}"),
		`document 1: NetworkPolicy x/p: spec.podselector: unknown field; did you mean podSelector?`,
	},
	{
		"unknown field in a peer",
		np("{podSelector: {}, ingress: [{from: [{podSelector: {matchLabel: {a: b}}}]}]}"),
		`document 1: NetworkPolicy x/p: spec.ingress[0].from[0].podSelector.matchLabel: unknown field; did you mean matchLabels?`,
	},
	{
		"short unknown field",
		podStatus("{podIPs: [{xx: 10.0.0.1}]}"),
		`document 1: Pod x/p: status.podIPs[0].xx: unknown field; correct its name or place, or remove it`,
	},
	{
		"from in egress",
		np("{podSelector: {}, egress: [{from: []}]}"),
		`document 1: NetworkPolicy x/p: spec.egress[0].from: unknown field; correct its name or place, or remove it`,
	},
	{
		"mapping for a list",
		np("{podSelector: {}, ingress: {from: []}}"),
		`document 1: NetworkPolicy x/p: spec.ingress: is a mapping, must be a list`,
	},
	{
		"list for a mapping",
		np("[]"),
		`document 1: NetworkPolicy x/p: spec: is a list, must be a mapping of field names to values`,
	},
	{
		"labels are a list",
		np("{podSelector: {matchLabels: [a]}}"),
		`document 1: NetworkPolicy x/p: spec.podSelector.matchLabels: is a list, must be a mapping of keys to values`,
	},
	{
		"string for a number",
		deployment("{replicas: '2'}"),
		`document 1: Deployment x/d: spec.replicas: is the string "2", must be a whole number of 32 bits, without quotes`,
	},
	{
		"fraction for a number",
		deployment("{replicas: 1.5}"),
		`document 1: Deployment x/d: spec.replicas: is the number 1.5, must be a whole number of 32 bits, without quotes`,
	},
	{
		"number too big",
		deployment("{replicas: 3000000000}"),
		`document 1: Deployment x/d: spec.replicas: is the number 3000000000, must be a whole number of 32 bits, without quotes`,
	},
	{
		"string for a truth value",
		pod("{hostNetwork: 'true'}"),
		`document 1: Pod x/p: spec.hostNetwork: is the string "true", must be true or false, without quotes`,
	},
	{
		"bad quantity",
		pod("{containers: [{name: a, resources: {limits: {cpu: lots}}}]}"),
		`document 1: Pod x/p: spec.containers[0].resources.limits[cpu]: is the string "lots", which is not a value of this field: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'; correct it`,
	},
	{
		"port is a list",
		np("{podSelector: {}, ingress: [{ports: [{port: [80]}]}]}"),
		`document 1: NetworkPolicy x/p: spec.ingress[0].ports[0].port: is a list, must be a whole number of 32 bits or a name`,
	},
	{
		"port is a fraction",
		np("{podSelector: {}, ingress: [{ports: [{port: 80.5}]}]}"),
		`document 1: NetworkPolicy x/p: spec.ingress[0].ports[0].port: is the number 80.5, must be a whole number of 32 bits or a name`,
	},
	{
		"container port 0",
		pod("{containers: [{name: a, ports: [{containerPort: 0}]}]}"),
		`document 1: Pod x/p: spec.containers[0].ports[0].containerPort: 0 is no port number; use 1 to 65535`,
	},
	{
		"container protocol",
		pod("{initContainers: [{name: a, ports: [{containerPort: 80, protocol: HTTP}]}]}"),
		`document 1: Pod x/p: spec.initContainers[0].ports[0].protocol: unknown protocol "HTTP"; use TCP, UDP or SCTP`,
	},
	{
		"container port name",
		pod("{containers: [{name: a}, {name: b, ports: [{name: more-than-fifteen, containerPort: 80}]}]}"),
		`document 1: Pod x/p: spec.containers[1].ports[0].name: "more-than-fifteen" is no port name; use at most 15 of a-z, 0-9 and '-', with a letter, and write a number without quotes`,
	},
	{
		"pod address",
		podStatus("{podIP: 10.0.0.256}"),
		`document 1: Pod x/p: status.podIP: "10.0.0.256" is not an IP address; write it like 10.224.0.7`,
	},
	{
		"pod address, leading zero",
		podStatus("{podIP: 10.0.0.01}"),
		`document 1: Pod x/p: status.podIP: "10.0.0.01" is not an IP address; write it like 10.224.0.7`,
	},
	{
		"pod addresses",
		podStatus("{podIPs: [{ip: 10.0.0.1}, {ip: x}]}"),
		`document 1: Pod x/p: status.podIPs[1].ip: "x" is not an IP address; write it like 10.224.0.7`,
	},
	{
		"empty pod address",
		podStatus("{podIPs: [{}]}"),
		`document 1: Pod x/p: status.podIPs[0].ip: "" is not an IP address; write it like 10.224.0.7`,
	},
	{
		"host address",
		podStatus("{hostIP: x}"),
		`document 1: Pod x/p: status.hostIP: "x" is not an IP address; write it like 10.224.0.7`,
	},
	{
		"node address",
		"apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {addresses: [{type: Hostname, address: host}, {type: InternalIP, address: host}]}\n",
		`document 1: Node n1: status.addresses[1].address: "host" is not an IP address; write it like 10.224.0.7`,
	},
	{
		"node without address",
		"apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {addresses: [{type: InternalIP}]}\n",
		`document 1: Node n1: status.addresses[0].address: "" is not an IP address; write it like 10.224.0.7`,
	},
	{
		"negative replicas",
		deployment("{replicas: -1}"),
		`document 1: Deployment x/d: spec.replicas: -1 is negative; use 0 or more`,
	},
	{
		"too many replicas",
		deployment("{replicas: 2000000000}"),
		`document 1: Deployment x/d: spec: makes 150001 pods, more than 150000 in total; use fewer`,
	},
	{
		"template label",
		deployment("{template: {metadata: {labels: {a: b c}}}}"),
		`document 1: Deployment x/d: spec.template.metadata.labels: Invalid value: "b c": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue', or 'my_value', or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`,
	},
	{
		"template port",
		deployment("{template: {spec: {containers: [{name: a, ports: [{containerPort: -1}]}]}}}"),
		`document 1: Deployment x/d: spec.template.spec.containers[0].ports[0].containerPort: -1 is no port number; use 1 to 65535`,
	},
	{
		"negative parallelism",
		"apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec: {parallelism: -2}\n",
		`document 1: Job j: spec.parallelism: -2 is negative; use 0 or more`,
	},
	{
		"daemon set with replicas",
		"apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: d}\nspec: {replicas: 2}\n",
		`document 1: DaemonSet d: spec.replicas: unknown field; correct its name or place, or remove it`,
	},
	{
		"in a list",
		"apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: a}}\n- {apiVersion: v1, kind: Pod, metadata: {name: b, label: {}}}\n",
		`document 1 items[1]: Pod b: metadata.label: unknown field; did you mean labels?`,
	},
	{
		"in a typed list",
		"apiVersion: networking.k8s.io/v1\nkind: NetworkPolicyList\nitems:\n- {metadata: {name: a}, spec: {podSelector: {}, ingress: [{from: [{}]}]}}\n",
		`document 1 items[0]: NetworkPolicy a: spec.ingress[0].from[0]: the peer is empty; give a podSelector, a namespaceSelector or an ipBlock`,
	},
	{
		"in a list in a list",
		"apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Pod}]}\n",
		`document 1 items[0].items[0]: Pod: metadata.name: is missing; give the object a name`,
	},
	{
		"no kind in a list",
		"apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1}\n",
		`document 1 items[0]: kind: is missing or no text; say which kind of object this is`,
	},
	{
		"control characters",
		"apiVersion: v1\nkind: Pod\nmetadata: {name: \"a\\n\\e[31m\"}\n",
		`document 1: Pod a [31m: metadata.name: Invalid value: "a\n\x1b[31m": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`,
	},
}

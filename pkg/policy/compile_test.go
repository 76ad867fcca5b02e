package policy_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
)

// TestScenario_D5_EndPortIsOneRange: 64,512 ports are one entry.
func TestScenario_D5_EndPortIsOneRange(t *testing.T) {
	c := policy.Compile(parseSpec(t, `{ingress: [{ports: [{port: 1024, endPort: 65535}]}]}`))
	require.Len(t, c.Rules, 1)
	require.Equal(t, []policy.Port{{Protocol: policy.TCP, First: 1024, Last: 65535}}, c.Rules[0].Ports)
}

// TestScenario_D6_NotInNeverAllowsEvil: a namespace without the key is in.
func TestScenario_D6_NotInNeverAllowsEvil(t *testing.T) {
	c := policy.Compile(parseSpec(t, `
policyTypes: [Egress]
egress: [{to: [{namespaceSelector: {matchExpressions: [{key: name, operator: NotIn, values: [evil]}]}}]}]
`))
	require.Equal(t, []ipsets.Name{ipsets.NamespaceSelector("name!=evil")}, c.Rules[0].Peers[0].Sets)
	evil := c.Sets[0].Namespaces
	require.False(t, evil.Matches(map[string]string{"name": "evil"}))
	require.True(t, evil.Matches(map[string]string{"name": "good"}))
	require.True(t, evil.Matches(map[string]string{"other": "evil"}))
	require.True(t, evil.Matches(nil))
}

// TestScenario_D8_MalformedClosesAndIsTold: each malformed part is told, and
// no rule that lost its peers turns into one for everyone.
func TestScenario_D8_MalformedClosesAndIsTold(t *testing.T) {
	const unknown = `{matchExpressions: [{key: app, operator: Matches, values: [a]}]}`
	tests := []struct {
		name, spec string
		rules      []string
		fields     []string
	}{
		{
			"the only peer", `ingress: [{from: [{podSelector: ` + unknown + `}]}]`,
			nil, []string{"spec.ingress[0].from[0].podSelector.matchExpressions[0].operator"},
		},
		{
			"one of two peers", `ingress: [{from: [{podSelector: ` + unknown + `}, {podSelector: {}}]}]`,
			[]string{"rule ingress[0] from ns-x ports all"},
			[]string{"spec.ingress[0].from[0].podSelector.matchExpressions[0].operator"},
		},
		{
			"half of a peer", `ingress: [{from: [{podSelector: {}, namespaceSelector: ` + unknown + `}]}, {}]`,
			[]string{"rule ingress[1] from everyone ports all"},
			[]string{"spec.ingress[0].from[0].namespaceSelector.matchExpressions[0].operator"},
		},
		{
			"the subject", `{podSelector: ` + unknown + `, ingress: [{}]}`,
			nil, []string{"spec.podSelector.matchExpressions[0].operator"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := policy.Compile(parseSpec(t, tt.spec))
			var rules, fields []string
			for _, r := range c.Rules {
				rules = append(rules, ruleTexts(r)...)
			}
			for _, p := range c.Problems {
				require.Equal(t, policy.ReasonInvalid, p.Reason)
				require.Contains(t, p.Message, `"Matches"`)
				fields = append(fields, p.Field)
			}
			if diff := cmp.Diff(tt.rules, rules); diff != "" {
				t.Errorf("rules (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.fields, fields); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			require.True(t, c.Isolates[policy.Ingress])
			require.True(t, c.Subject.Matches(map[string]string{"app": "b"}))
		})
	}
}

// TestScenario_D9_CollidingNamesAreTwo: a-b/c and a/b-c.
func TestScenario_D9_CollidingNamesAreTwo(t *testing.T) {
	compile := func(namespace, name string) policy.Policy {
		np := parseSpec(t, `ingress: [{from: [{podSelector: {matchExpressions: [{key: k, operator: DoesNotExist}]}}]}]`)
		np.Namespace, np.Name = namespace, name
		return policy.Compile(np)
	}
	one, two := compile("a-b", "c"), compile("a", "b-c")
	require.NotEqual(t, one.Key, two.Key)
	require.NotEqual(t, one.Key.String(), two.Key.String())
	for i := range one.Sets {
		require.NotEqual(t, one.Sets[i].Name.ID(), two.Sets[i].Name.ID())
	}
}

// TestNilAndEmptyMeanTheSame for every list of the API.
func TestNilAndEmptyMeanTheSame(t *testing.T) {
	const empty = `
policyTypes: []
podSelector: {matchLabels: {}, matchExpressions: []}
egress: []
ingress:
- {from: [], ports: []}
- {from: [{podSelector: {matchLabels: {}, matchExpressions: []}}]}
- {from: [{namespaceSelector: {matchLabels: {}, matchExpressions: []}}]}
- {from: [{ipBlock: {cidr: 10.0.0.0/8, except: []}}]}
- {from: [{podSelector: {matchExpressions: [{key: a, operator: Exists, values: []}]}}]}
`
	const absent = `
ingress:
- {}
- {from: [{podSelector: {}}]}
- {from: [{namespaceSelector: {}}]}
- {from: [{ipBlock: {cidr: 10.0.0.0/8}}]}
- {from: [{podSelector: {matchExpressions: [{key: a, operator: Exists}]}}]}
`
	if diff := cmp.Diff(text(policy.Compile(parseSpec(t, absent))), text(policy.Compile(parseSpec(t, empty)))); diff != "" {
		t.Errorf("(-absent +empty):\n%s", diff)
	}
}

// TestSameExpressionSameSet: policies share sets however they are written.
func TestSameExpressionSameSet(t *testing.T) {
	tests := []struct {
		want     ipsets.Name
		spelling []string
	}{
		{ipsets.PodLabel("app", "web"), []string{
			`{matchLabels: {app: web}}`,
			`{matchExpressions: [{key: app, operator: In, values: [web]}]}`,
			`{matchExpressions: [{key: app, operator: In, values: [web, web]}]}`,
			`{matchLabels: {app: web}, matchExpressions: [{key: app, operator: In, values: [web]}]}`,
		}},
		{ipsets.NestedLabel("app", "a", "b"), []string{
			`{matchExpressions: [{key: app, operator: In, values: [a, b]}]}`,
			`{matchExpressions: [{key: app, operator: In, values: [b, a, b]}]}`,
			`{matchExpressions: [{key: app, operator: In, values: [b, a]}, {key: app, operator: In, values: [a, b]}]}`,
		}},
		{ipsets.PodSelector("x", "app notin (a,b),!old"), []string{
			`{matchExpressions: [{key: app, operator: NotIn, values: [a, b]}, {key: old, operator: DoesNotExist}]}`,
			`{matchExpressions: [{key: old, operator: DoesNotExist}, {key: app, operator: NotIn, values: [b, b, a]}]}`,
		}},
	}
	for _, tt := range tests {
		for _, s := range tt.spelling {
			c := policy.Compile(parseSpec(t, `ingress: [{from: [{podSelector: `+s+`}]}]`))
			require.Equal(t, []ipsets.Name{ipsets.Namespace("x"), tt.want}, c.Rules[0].Peers[0].Sets, s)
		}
	}
}

// TestMatcherDoesNotAllocate: it is asked for every pod of the cluster.
func TestMatcherDoesNotAllocate(t *testing.T) {
	c := policy.Compile(parseSpec(t, `
podSelector:
  matchLabels: {app: web}
  matchExpressions:
  - {key: track, operator: NotIn, values: [canary, alpha]}
  - {key: legacy, operator: DoesNotExist}
`))
	l := map[string]string{"app": "web", "track": "stable"}
	require.True(t, c.Subject.Matches(l))
	require.Zero(t, testing.AllocsPerRun(100, func() { c.Subject.Matches(l) }))
}

// TestCompiledOutlivesItsPolicy: nothing of the result is the caller's memory.
func TestCompiledOutlivesItsPolicy(t *testing.T) {
	np := parseSpec(t, `
podSelector: {matchExpressions: [{key: app, operator: In, values: [a, b]}]}
ingress:
- from: [{podSelector: {matchExpressions: [{key: app, operator: NotIn, values: [a, b]}]}}]
  ports: [{port: web}]
`)
	c := policy.Compile(np)
	before := text(c)
	np.Spec.PodSelector.MatchExpressions[0].Values[0] = "z"
	np.Spec.Ingress[0].From[0].PodSelector.MatchExpressions[0].Values[0] = "z"
	np.Spec.Ingress[0].Ports[0].Port.StrVal = "other"
	if diff := cmp.Diff(before, text(c)); diff != "" {
		t.Errorf("the result changed with the object (-before +after):\n%s", diff)
	}
	require.True(t, c.Subject.Matches(map[string]string{"app": "a"}))
}

// TestPortOfUnknownType: a program can make one, JSON cannot.
func TestPortOfUnknownType(t *testing.T) {
	np := parseSpec(t, `{ingress: [{ports: [{port: 80}]}]}`)
	np.Spec.Ingress[0].Ports[0].Port.Type = 7
	c := policy.Compile(np)
	require.Empty(t, c.Rules)
	require.Len(t, c.Problems, 1)
	require.Equal(t, "spec.ingress[0].ports[0].port", c.Problems[0].Field)
}

// TestMalformedProblemsAreInOrder: a map of labels has no order, problems do.
func TestMalformedProblemsAreInOrder(t *testing.T) {
	np := parseSpec(t, `{}`)
	np.Spec.PodSelector.MatchLabels = map[string]string{"c c": "1", "a a": "1", "b b": "1", "d d": "no blank"}
	want := policy.Compile(np).Problems
	require.Len(t, want, 5)
	for range 20 {
		if diff := cmp.Diff(want, policy.Compile(np).Problems); diff != "" {
			t.Fatalf("another order (-first +now):\n%s", diff)
		}
	}
}

// TestWholeRangeIsTheProtocol: ranges that hold every port are the whole protocol, however
// they are cut, and drop the named ports of the protocol as the protocol itself does.
func TestWholeRangeIsTheProtocol(t *testing.T) {
	whole := []policy.Port{{Protocol: policy.TCP}}
	for _, ports := range []string{
		`{protocol: TCP}`,
		`{port: 1, endPort: 65535}`,
		`{port: 30000, endPort: 65535}, {port: 1, endPort: 40000}`,
		`{port: 2, endPort: 65535}, {port: 1}, {port: http}`,
	} {
		c := policy.Compile(parseSpec(t, `{ingress: [{ports: [`+ports+`]}]}`))
		require.Equal(t, whole, c.Rules[0].Ports, ports)
	}
	for _, ports := range []string{`{port: 2, endPort: 65535}`, `{port: 1, endPort: 65534}`} {
		c := policy.Compile(parseSpec(t, `{ingress: [{ports: [`+ports+`]}]}`))
		require.NotEqual(t, whole, c.Rules[0].Ports, ports)
	}
}

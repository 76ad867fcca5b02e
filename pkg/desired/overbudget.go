package desired

import (
	"fmt"
	"maps"
	"slices"

	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// Fit sets Size. It drops the labels and ports of a pod that is over policy.LabelBytes, and
// notes why. The pod is the caller's.
func (p *Pod) Fit() {
	names := make([]string, len(p.Ports))
	for i, port := range p.Ports {
		names[i] = port.Name
	}
	p.Size = policy.SizeOfPod(p.Labels, names...)
	if p.OverBudget = policy.ExcessOfLabels(p.Size); p.OverBudget != "" {
		p.Labels, p.Ports, p.Size = nil, nil, 0
	}
}

// Fit drops the labels of a namespace that is over policy.LabelBytes, and notes why. The
// namespace is the caller's.
func (ns *Namespace) Fit() {
	if ns.OverBudget = policy.ExcessOfLabels(policy.SizeOfPod(ns.Labels)); ns.OverBudget != "" {
		ns.Labels = nil
	}
}

// overBudget are the objects that are over a budget, with what they have too much of.
type overBudget struct {
	pods       map[string]map[string]string // by namespace and name
	namespaces map[string]string
}

func newOverBudget() overBudget {
	return overBudget{pods: map[string]map[string]string{}, namespaces: map[string]string{}}
}

// pod notes what a pod has too much of, "" for nothing.
func (o *overBudget) pod(key PodKey, excess string) {
	in := o.pods[key.Namespace]
	switch {
	case excess != "" && in == nil:
		o.pods[key.Namespace] = map[string]string{key.Name: excess}
	case excess != "":
		in[key.Name] = excess
	default:
		if delete(in, key.Name); len(in) == 0 {
			delete(o.pods, key.Namespace)
		}
	}
}

// warnings returns one warning for each kind and namespace. It costs the objects that
// are over their budget.
func (o *overBudget) warnings() []state.Warning {
	var out []state.Warning
	for namespace, in := range o.pods {
		first := slices.Min(slices.Collect(maps.Keys(in)))
		message := fmt.Sprintf("it has %s: it is in no set, and closed in both directions", in[first])
		if n := len(in) - 1; n > 0 {
			message += fmt.Sprintf("; so are %d more pods of the namespace", n)
		}
		out = append(out, state.Warning{Object: PodKey{namespace, first}.String(), Kind: "Pod", Reason: state.ReasonOverBudget, Message: message})
	}
	for ns, excess := range o.namespaces {
		out = append(out, state.Warning{Object: ns, Kind: "Namespace", Reason: state.ReasonOverBudget,
			Message: fmt.Sprintf("it has %s: no namespaceSelector matches it", excess)})
	}
	return out
}

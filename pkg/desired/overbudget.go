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

// overBudget are the objects that are over a budget, by namespace, so that there is one
// warning for each namespace.
type overBudget struct {
	pods       map[string]map[string]string // in what, by namespace and name
	namespaces map[string]string            // in what
}

func newOverBudget() overBudget {
	return overBudget{pods: map[string]map[string]string{}, namespaces: map[string]string{}}
}

// setPod notes how a pod is.
func (o *overBudget) setPod(key PodKey, excess string) {
	switch of := o.pods[key.Namespace]; {
	case excess == "":
		if delete(of, key.Name); of != nil && len(of) == 0 {
			delete(o.pods, key.Namespace)
		}
	case of == nil:
		o.pods[key.Namespace] = map[string]string{key.Name: excess}
	default:
		of[key.Name] = excess
	}
}

// setNamespace notes how a Namespace object is.
func (o *overBudget) setNamespace(name, excess string) {
	if delete(o.namespaces, name); excess != "" {
		o.namespaces[name] = excess
	}
}

// warnings returns one warning for each kind and namespace. It costs the objects that
// are over their budget.
func (o *overBudget) warnings() []state.Warning {
	var out []state.Warning
	for ns, of := range o.pods {
		name := slices.Min(slices.Collect(maps.Keys(of)))
		message := fmt.Sprintf("it has %s: it is in no set, and closed in both directions", of[name])
		if n := len(of) - 1; n > 0 {
			message += fmt.Sprintf("; so are %d more pods of the namespace", n)
		}
		out = append(out, state.Warning{Object: PodKey{ns, name}.String(), Kind: "Pod", Reason: state.ReasonOverBudget, Message: message})
	}
	for ns, excess := range o.namespaces {
		out = append(out, state.Warning{Object: ns, Kind: "Namespace", Reason: state.ReasonOverBudget,
			Message: fmt.Sprintf("it has %s: no namespaceSelector matches it", excess)})
	}
	return out
}

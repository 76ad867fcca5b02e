package desired

import (
	"fmt"

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
	pods       map[PodKey]string
	namespaces map[string]string
}

// noteExcess notes how an object is.
func noteExcess[K comparable](of map[K]string, key K, excess string) {
	if delete(of, key); excess != "" {
		of[key] = excess
	}
}

// warnings returns one warning for each kind and namespace. It costs the objects that
// are over their budget.
func (o *overBudget) warnings() []state.Warning {
	var out []state.Warning
	first, more := map[string]PodKey{}, map[string]int{} // by namespace
	for key := range o.pods {
		more[key.Namespace]++
		if was, is := first[key.Namespace]; !is || key.Name < was.Name {
			first[key.Namespace] = key
		}
	}
	for ns, key := range first {
		message := fmt.Sprintf("it has %s: it is in no set, and closed in both directions", o.pods[key])
		if n := more[ns] - 1; n > 0 {
			message += fmt.Sprintf("; so are %d more pods of the namespace", n)
		}
		out = append(out, state.Warning{Object: key.String(), Kind: "Pod", Reason: state.ReasonOverBudget, Message: message})
	}
	for ns, excess := range o.namespaces {
		out = append(out, state.Warning{Object: ns, Kind: "Namespace", Reason: state.ReasonOverBudget,
			Message: fmt.Sprintf("it has %s: no namespaceSelector matches it", excess)})
	}
	return out
}

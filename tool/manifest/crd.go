package manifest

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
	"sigs.k8s.io/yaml"
)

// clusterCRD is the CRD of ClusterNetworkPolicy, experimental channel. It is a copy of the file
// in the module sigs.k8s.io/network-policy-api; a test compares the two.
//
//go:embed clusternetworkpolicies.yaml
var clusterCRD []byte

// crd validates custom resources by the schema of their CRD, with the code of the API server.
type crd struct {
	schema  *schema.Structural
	openAPI validation.SchemaValidator
	cel     *cel.Validator
}

// clusterPolicies returns the validator of ClusterNetworkPolicies. The first call compiles its CEL rules,
// which takes some milliseconds.
var clusterPolicies = sync.OnceValue(func() *crd {
	c, err := newCRD(clusterCRD, v1alpha2.GroupVersion.Version)
	if err != nil {
		panic(err) // the text is part of the program
	}
	return c
})

func newCRD(text []byte, version string) (*crd, error) {
	var definition apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(text, &definition); err != nil {
		return nil, fmt.Errorf("read the CRD: %w", err)
	}
	i := slices.IndexFunc(definition.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == version })
	if i < 0 {
		return nil, fmt.Errorf("the CRD has no version %s", version)
	}
	var props apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(definition.Spec.Versions[i].Schema.OpenAPIV3Schema, &props, nil); err != nil {
		return nil, fmt.Errorf("convert the schema of the CRD: %w", err)
	}
	structural, err := schema.NewStructural(&props)
	if err != nil {
		return nil, fmt.Errorf("read the schema of the CRD: %w", err)
	}
	openAPI, _, err := validation.NewSchemaValidator(&props)
	if err != nil {
		return nil, fmt.Errorf("compile the schema of the CRD: %w", err)
	}
	return &crd{structural, openAPI, cel.NewValidator(structural, true, celconfig.PerCallLimit)}, nil
}

// validate removes the null fields of an object and returns the errors that an API server reports,
// sorted by field. As in an API server, CEL rules run only on objects that the rest of the schema
// accepts, which bounds their lists and strings, and within a budget.
func (c *crd) validate(object map[string]any) field.ErrorList {
	defaulting.PruneNonNullableNullsWithoutDefaults(object, c.schema)
	errs := validation.ValidateCustomResource(nil, object, c.openAPI)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, c.schema, object)...)
	if len(errs) == 0 {
		errs, _ = c.cel.Validate(context.Background(), nil, c.schema, object, nil, celconfig.RuntimeCELCostBudget) //nolint:forbidigo // the budget ends it
	}
	for _, err := range errs {
		err.Detail = strings.TrimPrefix(err.Detail, err.Field+" in body ")
	}
	slices.SortStableFunc(errs, func(a, b *field.Error) int { return cmp.Compare(a.Field, b.Field) })
	return errs
}

package main

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
)

// The limits of shell completions, which come from the cluster that the command line names.
var (
	podResource       = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	namespaceResource = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	policyResource    = schema.GroupVersionResource{Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"}
)

const (
	// completeWithin limits the time of a completion.
	completeWithin = 2 * time.Second
	// mostCompletions limits the objects that are requested.
	mostCompletions = 500
)

// completions completes contexts and namespaces.
func completions(cmd *cobra.Command, c *clusterOptions) {
	complete := func(flag string, names func(ctx context.Context) []string) {
		// It fails only if the command has no such flag.
		_ = cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			return names(cmd.Context()), cobra.ShellCompDirectiveNoFileComp
		})
	}
	complete("namespace", func(ctx context.Context) []string { return c.names(ctx, namespaceResource, "") })
	complete("context", func(context.Context) []string {
		config, err := c.kubectl().RawConfig()
		if err != nil {
			return nil
		}
		return slices.Sorted(maps.Keys(config.Contexts))
	})
}

// named completes an argument that names an object of the cluster: NAME or NAMESPACE/NAME.
func (c *clusterOptions) named(resource schema.GroupVersionResource) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		namespace, prefix := c.inNamespace(), ""
		if other, _, ok := strings.Cut(typed, "/"); ok {
			namespace, prefix = other, other+"/"
		}
		var out []string
		for _, name := range c.names(cmd.Context(), resource, namespace) {
			out = append(out, prefix+name)
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}

// names returns the names of objects. It returns none after an error, which a completion cannot show.
func (c *clusterOptions) names(ctx context.Context, resource schema.GroupVersionResource, namespace string) []string {
	api, err := c.config()
	if err != nil {
		return nil
	}
	api.Timeout = completeWithin
	client, err := metadata.NewForConfig(api)
	if err != nil {
		return nil
	}
	list, err := client.Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{Limit: mostCompletions})
	if err != nil {
		return nil
	}
	var out []string
	for _, object := range list.Items {
		out = append(out, object.Name)
	}
	return out
}

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/winnpm/winnpm/pkg/cli"
)

// printAs writes a value as JSON or YAML, or calls text to write it as text.
func printAs(out io.Writer, form string, value any, text func(io.Writer) error) error {
	if form != "json" && form != "yaml" {
		return text(out)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(cli.PrintableJSON(&b))
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return err
	}
	if form == "json" {
		_, err := out.Write(b.Bytes())
		return err
	}
	y, err := yaml.JSONToYAML(b.Bytes())
	if err != nil {
		return err
	}
	_, err = out.Write(y)
	return err
}

// oneOf returns an error if a command does not support the output format form.
func oneOf(form string, forms ...string) error {
	if slices.Contains(forms, form) {
		return nil
	}
	last := len(forms) - 1
	return fmt.Errorf("-o %q: the output is %s or %s", form, strings.Join(forms[:last], ", "), forms[last])
}

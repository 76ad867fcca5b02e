package main

import (
	_ "embed"
	"strings"
	"text/template"
)

// krewFile is the plugin's manifest for the index of krew, kubectl's plugin manager.
const krewFile = "npm.krew.yaml"

//go:embed krew.yaml.tmpl
var krewTemplate string

// krewPlatform is one archive, as the template wants it.
type krewPlatform struct{ OS, Arch, File, Sum, Exe string }

// saveKrew fills in the version and the checksums of the archives.
func (r release) saveKrew(targets []target) error {
	parsed, err := template.New(krewFile).Option("missingkey=error").Parse(krewTemplate)
	if err != nil {
		return err
	}
	var platforms []krewPlatform
	for _, t := range targets {
		sum, err := r.sum(r.archiveName(t))
		if err != nil {
			return err
		}
		platforms = append(platforms, krewPlatform{t.goos, t.goarch, r.archiveName(t), sum, t.exe()})
	}
	var text strings.Builder
	if err := parsed.Execute(&text, map[string]any{"Version": r.version, "Platforms": platforms}); err != nil {
		return err
	}
	return r.save(krewFile, []byte(text.String()))
}

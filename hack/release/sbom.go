package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"
)

// bomExtension is the end of a bill of materials' name, as CycloneDX recommends it.
const bomExtension = ".cdx.json"

// saveBOM writes which modules are linked into a program, as the program itself says. It has
// no serial number and no time: the same program has the same bill.
func (r release) saveBOM(name string, program []byte) error {
	info, err := buildinfo.Read(bytes.NewReader(program))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	var text bytes.Buffer
	encoder := cyclonedx.NewBOMEncoder(&text, cyclonedx.BOMFileFormatJSON).SetPretty(true)
	// What reads bills of materials knows 1.6, but not always a newer one.
	if err := encoder.EncodeVersion(r.bom(info, fmt.Sprintf("%x", sha256.Sum256(program))), cyclonedx.SpecVersion1_6); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return r.save(name+bomExtension, text.Bytes())
}

// bom lists the standard library and the modules of a program, in the order of its own list,
// which is sorted.
func (r release) bom(info *debug.BuildInfo, sum string) *cyclonedx.BOM {
	main := module(info.Main.Path, r.version)
	main.Type = cyclonedx.ComponentTypeApplication
	// The program's package: what tests compile to is not of the same name as its folder.
	main.Name = strings.TrimSuffix(info.Path, ".test")
	main.BOMRef = main.PackageURL + "#" + strings.TrimPrefix(strings.TrimPrefix(main.Name, info.Main.Path), "/")
	main.PackageURL = main.BOMRef
	main.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: sum}}
	main.Properties = settings(info)

	components := []cyclonedx.Component{module("std", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, dep := range info.Deps {
		if dep.Replace != nil {
			dep = dep.Replace
		}
		c := module(dep.Path, dep.Version)
		if dep.Sum != "" {
			// The sum of a module is of its list of files, so it is none of CycloneDX's hashes.
			c.Properties = &[]cyclonedx.Property{{Name: "go:sum", Value: dep.Sum}}
		}
		components = append(components, c)
	}
	var needs []string
	for _, c := range components {
		needs = append(needs, c.BOMRef)
	}
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Component: &main}
	bom.Components = &components
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: main.BOMRef, Dependencies: &needs}}
	return bom
}

func module(name, version string) cyclonedx.Component {
	purl := "pkg:golang/" + name + "@" + strings.ReplaceAll(version, "+", "%2B")
	return cyclonedx.Component{BOMRef: purl, Type: cyclonedx.ComponentTypeLibrary, Name: name, Version: version, PackageURL: purl}
}

// settings tells for what a program was built.
func settings(info *debug.BuildInfo) *[]cyclonedx.Property {
	var out []cyclonedx.Property
	for _, s := range info.Settings {
		out = append(out, cyclonedx.Property{Name: "go:build:" + s.Key, Value: s.Value})
	}
	return &out
}

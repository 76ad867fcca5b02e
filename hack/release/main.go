// Command release writes a bill of materials beside each program: the modules that are linked
// into it, in CycloneDX's JSON. hack/release.sh runs it.
//
//	release -version v0.1.0 FILE=PROGRAM... writes FILE.cdx.json about PROGRAM
package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"
)

func main() {
	version := flag.String("version", "", "the version of the release, such as v0.1.0")
	flag.Parse()
	for _, arg := range flag.Args() {
		name, program, _ := strings.Cut(arg, "=")
		if err := saveBOM(name+".cdx.json", program, *version); err != nil {
			fmt.Fprintln(os.Stderr, "release:", err)
			os.Exit(1)
		}
	}
}

// saveBOM writes the bill of materials of a program to a file. It has no serial number and no
// time, so the same program has the same bill.
func saveBOM(file, program, version string) error {
	content, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	info, err := buildinfo.Read(bytes.NewReader(content))
	if err != nil {
		return fmt.Errorf("read the modules of %s: %w", program, err)
	}
	var text bytes.Buffer
	encoder := cyclonedx.NewBOMEncoder(&text, cyclonedx.BOMFileFormatJSON).SetPretty(true)
	// Most scanners read version 1.6, and not all of them a newer one.
	if err := encoder.EncodeVersion(bom(info, version, fmt.Sprintf("%x", sha256.Sum256(content))), cyclonedx.SpecVersion1_6); err != nil {
		return fmt.Errorf("encode the modules of %s: %w", program, err)
	}
	return os.WriteFile(file, text.Bytes(), 0o644)
}

// bom lists the standard library and the modules of a program, in the order of its build information,
// which is sorted. sum is the SHA-256 of the program.
func bom(info *debug.BuildInfo, version, sum string) *cyclonedx.BOM {
	main := module(info.Main.Path, version)
	main.Type = cyclonedx.ComponentTypeApplication
	// Compiled tests have the suffix .test, unlike their folder.
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
			// Go sums the list of files, which is none of the hashes that CycloneDX knows.
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

// settings returns the build settings of a program, such as its GOOS.
func settings(info *debug.BuildInfo) *[]cyclonedx.Property {
	var out []cyclonedx.Property
	for _, s := range info.Settings {
		out = append(out, cyclonedx.Property{Name: "go:build:" + s.Key, Value: s.Value})
	}
	return &out
}

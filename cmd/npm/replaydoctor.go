package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/winnpm/winnpm/pkg/doctor"
	"github.com/winnpm/winnpm/pkg/printable"
	"github.com/winnpm/winnpm/pkg/simulate"
)

// readExamination reads the zip of npm doctor. Any other file is an error.
func readExamination(file string) (doctor.Result, error) {
	f, err := os.Open(file)
	if err != nil {
		return doctor.Result{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return doctor.Result{}, err
	}
	return doctor.ReadZip(f, info.Size())
}

// tellAgain says what a doctor said when it wrote its zip, which may be anybody's.
func tellAgain(std streams, output, file string, r doctor.Result) error {
	var err error
	if output == "json" {
		enc := json.NewEncoder(printable.JSON(std.out))
		enc.SetIndent("", "  ")
		err = enc.Encode(r)
	} else {
		err = tellResult(std.out, file, r)
	}
	switch {
	case err != nil:
		return exit{simulate.ExitBadInput, fmt.Errorf("replay: %s: %w", file, err)}
	case r.Count(doctor.Refuted) > 0:
		return exit{code: exitDiffers}
	}
	return nil
}

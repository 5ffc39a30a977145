// SPDX-License-Identifier: MIT OR Apache-2.0

// Package pprofcheck holds profiles against what servers ask of them. google/pprof, which renumbers what it reads, takes
// more than they do: Parca refuses a whole profile for one id that is not its place in the table, Pyroscope drops or
// refuses it for references that lead nowhere and for text that is not UTF-8. For tests, and for the program checker.
package pprofcheck

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/google/pprof/profile"
)

// Numbers of fields in profile.proto.
const (
	profileSampleType  = 1
	profileSample      = 2
	profileMapping     = 3
	profileLocation    = 4
	profileFunction    = 5
	profileString      = 6
	profileDropFrames  = 7
	profileKeepFrames  = 8
	profilePeriodType  = 11
	profileComment     = 13
	profileDefaultType = 14
)

// tables of a profile as they lie in the file.
type tables struct {
	strings                                        [][]byte
	types, samples, mappings, locations, functions [][]byte
	texts                                          []uint64 // references to strings by the profile itself
}

// Parse reads a profile that servers and google/pprof take, and else says why they would not.
func Parse(raw []byte) (*profile.Profile, error) {
	p, err := profile.ParseData(raw)
	if err == nil {
		err = p.CheckValid()
	}
	if err != nil {
		return nil, fmt.Errorf("google/pprof: %w", err)
	}
	if err := Check(raw); err != nil {
		return nil, fmt.Errorf("rules of profile servers: %w", err)
	}
	return p, nil
}

// Check says which of the servers' rules the profile, compressed or not, does not keep.
func Check(raw []byte) error {
	if bytes.HasPrefix(raw, []byte{0x1f, 0x8b}) {
		unpacked, err := unpack(raw)
		if err != nil {
			return err
		}
		raw = unpacked
	}
	p, err := read(raw)
	if err != nil {
		return err
	}
	for _, rule := range []func() error{
		p.checkStrings, p.checkTypes, p.checkMappings, p.checkFunctions, p.checkLocations, p.checkSamples,
	} {
		if err := rule(); err != nil {
			return err
		}
	}
	return nil
}

func unpack(raw []byte) ([]byte, error) {
	reader, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(reader)
}

func read(raw []byte) (*tables, error) {
	p := &tables{}
	known := map[uint64]*[][]byte{profileSampleType: &p.types, profileSample: &p.samples, profileMapping: &p.mappings,
		profileLocation: &p.locations, profileFunction: &p.functions, profileString: &p.strings}
	err := each(raw, func(f field) error {
		if table := known[f.tag]; table != nil {
			if f.kind != kindBytes {
				return fmt.Errorf("field %d of the profile is a number", f.tag)
			}
			*table = append(*table, f.bytes)
			return nil
		}
		switch f.tag {
		case profileDropFrames, profileKeepFrames, profileDefaultType, profileComment:
			texts, err := f.numbers()
			p.texts = append(p.texts, texts...)
			return err
		case profilePeriodType:
			return p.readType(f.bytes)
		}
		return nil
	})
	return p, err
}

// readType notes both strings of a ValueType.
func (p *tables) readType(message []byte) error {
	values, err := scalars(message)
	p.texts = append(p.texts, values[1], values[2])
	return err
}

func (p *tables) checkStrings() error {
	if len(p.strings) == 0 || len(p.strings[0]) != 0 {
		return errors.New("the first string is not the empty one")
	}
	for i, text := range p.strings {
		if !utf8.Valid(text) {
			return fmt.Errorf("string %d is no UTF-8: %.60q", i, text)
		}
	}
	return p.checkTexts("the profile", p.texts...)
}

func (p *tables) checkTexts(who string, texts ...uint64) error {
	for _, text := range texts {
		if text >= uint64(len(p.strings)) {
			return fmt.Errorf("%s refers to string %d of %d", who, text, len(p.strings))
		}
	}
	return nil
}

func (p *tables) checkTypes() error {
	if len(p.types) == 0 {
		return errors.New("no sample types")
	}
	for _, message := range p.types {
		values, err := scalars(message)
		if err != nil {
			return err
		}
		if err := p.checkTexts("a sample type", values[1], values[2]); err != nil {
			return err
		}
		// A hyphen ends a name where the server's queries are read.
		if name := p.strings[values[1]]; len(name) == 0 || bytes.ContainsRune(name, '-') {
			return fmt.Errorf("a sample type is called %q", name)
		}
	}
	return nil
}

// checkTable wants the ids 1, 2, ... in the order of the table, and strings that are there.
func (p *tables) checkTable(what string, table [][]byte, texts ...uint64) error {
	for i, message := range table {
		values, err := scalars(message)
		if err != nil {
			return err
		}
		who := fmt.Sprintf("%s %d", what, values[1])
		if values[1] != uint64(i)+1 {
			return fmt.Errorf("%s stands at place %d: ids are not 1, 2, ... in order", who, i+1)
		}
		for _, text := range texts {
			if err := p.checkTexts(who, values[text]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *tables) checkMappings() error {
	const filename, buildID = 5, 6
	return p.checkTable("mapping", p.mappings, filename, buildID)
}

func (p *tables) checkFunctions() error {
	const name, systemName, filename = 2, 3, 4
	return p.checkTable("function", p.functions, name, systemName, filename)
}

func (p *tables) checkLocations() error {
	if err := p.checkTable("location", p.locations); err != nil {
		return err
	}
	for i, message := range p.locations {
		if err := p.checkLocation(message); err != nil {
			return fmt.Errorf("location %d %w", i+1, err)
		}
	}
	return nil
}

func (p *tables) checkLocation(message []byte) error {
	const mapping, address, line, function = 2, 3, 4, 1
	lines := 0
	place, err := scalars(message)
	if err != nil {
		return err
	}
	if place[mapping] > uint64(len(p.mappings)) {
		return fmt.Errorf("lies in mapping %d of %d", place[mapping], len(p.mappings))
	}
	err = each(message, func(f field) error {
		if f.tag != line {
			return nil
		}
		lines++
		values, err := scalars(f.bytes)
		if err == nil && (values[function] == 0 || values[function] > uint64(len(p.functions))) {
			err = fmt.Errorf("is in function %d of %d", values[function], len(p.functions))
		}
		return err
	})
	if err == nil && lines == 0 && place[address] == 0 {
		err = errors.New("has neither address nor function")
	}
	return err
}

func (p *tables) checkSamples() error {
	for i, message := range p.samples {
		if err := p.checkSample(message); err != nil {
			return fmt.Errorf("sample %d %w", i+1, err)
		}
	}
	return nil
}

func (p *tables) checkSample(message []byte) error {
	const location, value, label = 1, 2, 3
	var stack, values []uint64
	keys := map[string]bool{}
	err := each(message, func(f field) error {
		all, err := []uint64(nil), error(nil)
		switch f.tag {
		case location:
			all, err = f.numbers()
			stack = append(stack, all...)
		case value:
			all, err = f.numbers()
			values = append(values, all...)
		case label:
			err = p.checkLabel(f.bytes, keys)
		}
		return err
	})
	if err != nil {
		return err
	}
	if len(values) != len(p.types) {
		return fmt.Errorf("has %d values for %d types", len(values), len(p.types))
	}
	if len(stack) == 0 {
		return errors.New("has no locations")
	}
	for _, id := range stack {
		if id == 0 || id > uint64(len(p.locations)) {
			return fmt.Errorf("has location %d of %d", id, len(p.locations))
		}
	}
	return nil
}

// checkLabel wants each key once: servers take the first of two, or refuse both.
func (p *tables) checkLabel(message []byte, keys map[string]bool) error {
	const key, text, unit = 1, 2, 4
	values, err := scalars(message)
	if err != nil {
		return err
	}
	if err := p.checkTexts("has a label that", values[key], values[text], values[unit]); err != nil {
		return err
	}
	name := string(p.strings[values[key]])
	if name == "" {
		return errors.New("has a label without a key")
	}
	if keys[name] {
		return fmt.Errorf("has two labels %q", name)
	}
	keys[name] = true
	return nil
}

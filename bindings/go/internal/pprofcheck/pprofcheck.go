// SPDX-License-Identifier: MIT OR Apache-2.0

// Package pprofcheck holds profiles against what servers ask of them. google/pprof takes more than they do: Parca refuses
// a whole profile for one id that is not its place in the table, Pyroscope drops or refuses it for references that lead
// nowhere and for text that is not UTF-8. For tests, and for the program checker.
package pprofcheck

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/google/pprof/profile"
)

// Parse reads a profile that servers and google/pprof take, and else says why they would not.
func Parse(raw []byte) (*profile.Profile, error) {
	p, err := profile.ParseData(raw)
	if err == nil {
		err = p.CheckValid()
	}
	if err != nil {
		return nil, fmt.Errorf("google/pprof: %w", err)
	}
	for _, rule := range []func(*profile.Profile) error{checkTypes, checkIDs, checkTexts, checkLocations, checkSamples} {
		if err = rule(p); err != nil {
			break
		}
	}
	if err == nil {
		err = checkMappings(raw, len(p.Mapping))
	}
	if err != nil {
		return nil, fmt.Errorf("rules of profile servers: %w", err)
	}
	return p, nil
}

// Check says which of the rules the profile, compressed or not, does not keep.
func Check(raw []byte) error {
	_, err := Parse(raw)
	return err
}

func checkTypes(p *profile.Profile) error {
	if len(p.SampleType) == 0 {
		return errors.New("no sample types")
	}
	for _, one := range p.SampleType {
		// A hyphen ends a name where the server's queries are read.
		if one.Type == "" || strings.Contains(one.Type, "-") {
			return fmt.Errorf("a sample type is called %q", one.Type)
		}
	}
	return nil
}

// checkIDs wants the ids 1, 2, ... in the order of each table.
func checkIDs(p *profile.Profile) error {
	check := func(what string, at int, id uint64) error {
		if id != uint64(at)+1 {
			return fmt.Errorf("%s %d stands at place %d: ids are not 1, 2, ... in order", what, id, at+1)
		}
		return nil
	}
	var all []error
	for i, m := range p.Mapping {
		all = append(all, check("mapping", i, m.ID))
	}
	for i, f := range p.Function {
		all = append(all, check("function", i, f.ID))
	}
	for i, l := range p.Location {
		all = append(all, check("location", i, l.ID))
	}
	return errors.Join(all...)
}

func checkTexts(p *profile.Profile) error {
	texts := append([]string{p.DropFrames, p.KeepFrames, p.DefaultSampleType}, p.Comments...)
	for _, f := range p.Function {
		texts = append(texts, f.Name, f.SystemName, f.Filename)
	}
	for _, m := range p.Mapping {
		texts = append(texts, m.File, m.BuildID)
	}
	for _, s := range p.Sample {
		for key, values := range s.Label {
			texts = append(append(texts, key), values...)
		}
	}
	for _, text := range texts {
		if !utf8.ValidString(text) {
			return fmt.Errorf("a text is no UTF-8: %.60q", text)
		}
	}
	return nil
}

func checkLocations(p *profile.Profile) error {
	for _, l := range p.Location {
		if len(l.Line) == 0 && l.Address == 0 {
			return fmt.Errorf("location %d has neither address nor function", l.ID)
		}
	}
	return nil
}

// checkSamples wants each key of a label once: servers take the first of two, or refuse both.
func checkSamples(p *profile.Profile) error {
	for i, s := range p.Sample {
		if len(s.Location) == 0 {
			return fmt.Errorf("sample %d has no locations", i+1)
		}
		uses := map[string]int{}
		for key, values := range s.Label {
			uses[key] += len(values)
		}
		for key, values := range s.NumLabel {
			uses[key] += len(values)
		}
		for key, count := range uses {
			if key == "" {
				return fmt.Errorf("sample %d has a label without a key", i+1)
			}
			if count != 1 {
				return fmt.Errorf("sample %d has %d labels %q", i+1, count, key)
			}
		}
	}
	return nil
}

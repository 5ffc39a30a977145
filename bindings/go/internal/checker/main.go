// SPDX-License-Identifier: MIT OR Apache-2.0

// Checker reads the profiles that tests/fuzz/fuzz_pprof.c hands over, by google/pprof and by the rules of profile servers,
// and fails at the first one that is not sound: refused by either, other sums than were put in, or text that other readers
// of protocol buffers would refuse.
//
//	checker FILE
//
// FILE has, for each profile, ten numbers of 64 bits (bytes, samples, and the sums of its value types), and the bytes.
//
//	checker -
//
// reads one profile of any making, compressed or not, from the standard input and asks for the readers' checks only (tests
// of the preload and of Rust).
package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"unicode/utf8"

	"github.com/google/pprof/profile"
	"github.com/onstack-profiler/onstack/bindings/go/internal/pprofcheck"
)

// mostBytes of one profile: the fuzzer's inputs are small.
const mostBytes = 64 << 20

// columns are the value types that a profile may have, in the order that it has them in.
var columns = [...]profile.ValueType{
	{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}, {Type: "wall", Unit: "nanoseconds"},
	{Type: "alloc_objects", Unit: "count"}, {Type: "alloc_space", Unit: "bytes"},
	{Type: "threads", Unit: "count"},
}

// none is the place of values that are 0: the samples name no objects, so nothing is in use.
const none = -1

// head stands before each profile.
type head struct {
	Bytes, Samples uint64
	Sums           [len(columns)]uint64
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: checker FILE   (ONSTACK_FUZZ_PROFILES of tests/fuzz/fuzz_pprof.c), or checker - <PROFILE")
		os.Exit(2)
	}
	if os.Args[1] == "-" {
		if err := checkAny(os.Stdin); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	count, err := checkFile(os.Args[1])
	if err == nil && count == 0 {
		err = errors.New("it holds no profile")
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "checker: %s: profile %d: %v\n", os.Args[1], count, err)
		os.Exit(1)
	}
	fmt.Printf("checker: %d profiles are sound for google/pprof and for profile servers\n", count)
}

func checkAny(in io.Reader) error {
	raw, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	_, err = pprofcheck.Parse(raw)
	return err
}

func checkFile(path string) (count int, err error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	for in := bufio.NewReader(file); ; count++ {
		var h head
		if err := binary.Read(in, binary.LittleEndian, &h); errors.Is(err, io.EOF) {
			return count, nil
		} else if err != nil {
			return count, err
		}
		if h.Bytes > mostBytes {
			return count, fmt.Errorf("%d bytes", h.Bytes)
		}
		raw := make([]byte, h.Bytes)
		if _, err := io.ReadFull(in, raw); err != nil {
			return count, err
		}
		if err := check(raw, h); err != nil {
			return count, fmt.Errorf("%w\n%q", err, raw)
		}
	}
}

// placesOf finds the columns of value types, which come in their order, each once.
func placesOf(types []*profile.ValueType) (places []int, err error) {
	next := 0
	for _, have := range types {
		if have.Type == "inuse_objects" || have.Type == "inuse_space" {
			places = append(places, none)
			continue
		}
		for next < len(columns) && (columns[next].Type != have.Type || columns[next].Unit != have.Unit) {
			next++
		}
		if next == len(columns) {
			return nil, fmt.Errorf("sample types %v", types)
		}
		places = append(places, next)
		next++
	}
	return places, nil
}

func check(raw []byte, h head) error {
	p, err := pprofcheck.Parse(raw)
	if err != nil {
		return err
	}
	places, err := placesOf(p.SampleType)
	if err != nil {
		return err
	}
	var sums [len(columns)]uint64
	for _, sample := range p.Sample {
		for i, value := range sample.Value {
			if places[i] == none {
				if value != 0 {
					return fmt.Errorf("%d of %s", value, p.SampleType[i].Type)
				}
				continue
			}
			sums[places[i]] += uint64(value)
		}
		if err := checkSample(sample); err != nil {
			return err
		}
	}
	if sums != h.Sums || uint64(len(p.Sample)) > h.Samples {
		return fmt.Errorf("%v in %d stacks; put in were %v in %d samples", sums, len(p.Sample), h.Sums, h.Samples)
	}
	if err := checkPlaces(p); err != nil {
		return err
	}
	return checkCopy(p)
}

func checkSample(s *profile.Sample) error {
	if len(s.Location) == 0 {
		return errors.New("a sample without a frame")
	}
	for key, values := range s.Label {
		for _, value := range values {
			if !utf8.ValidString(key) || !utf8.ValidString(value) {
				return fmt.Errorf("a label that is no text: %q %q", key, value)
			}
		}
	}
	for key := range s.NumLabel {
		// A text that is empty cannot be told from the number 0 (profile.proto, Label).
		if key != "thread_id" && s.NumLabel[key][0] != 0 {
			return fmt.Errorf("a label %q with the number %d", key, s.NumLabel[key])
		}
	}
	return nil
}

func checkPlaces(p *profile.Profile) error {
	used := map[*profile.Location]bool{}
	for _, sample := range p.Sample {
		for _, location := range sample.Location {
			used[location] = true
		}
	}
	if len(used) != len(p.Location) {
		return fmt.Errorf("%d locations, %d of them in samples", len(p.Location), len(used))
	}
	for _, location := range p.Location {
		if m := location.Mapping; m != nil && (location.Address < m.Start || location.Address >= m.Limit) {
			return fmt.Errorf("location %#x outside its mapping %#x-%#x", location.Address, m.Start, m.Limit)
		}
	}
	for _, function := range p.Function {
		if function.Name == "" || function.SystemName == "" {
			return fmt.Errorf("function %d without a name", function.ID)
		}
		if !utf8.ValidString(function.Name + function.SystemName + function.Filename) {
			return fmt.Errorf("function %d has a name that is no text: %q", function.ID, function.Name)
		}
	}
	for _, m := range p.Mapping {
		if !utf8.ValidString(m.File + m.BuildID) {
			return fmt.Errorf("mapping %d has a name that is no text: %q", m.ID, m.File)
		}
	}
	return nil
}

// checkCopy writes it by pprof's own writer: what was read must come back.
func checkCopy(p *profile.Profile) error {
	var out bytes.Buffer
	if err := p.WriteUncompressed(&out); err != nil {
		return err
	}
	again, err := profile.ParseUncompressed(out.Bytes())
	if err != nil {
		return fmt.Errorf("what pprof wrote of it: %w", err)
	}
	if again.String() != p.String() {
		return errors.New("what pprof wrote of it is another profile")
	}
	return nil
}

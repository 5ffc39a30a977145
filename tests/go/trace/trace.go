// SPDX-License-Identifier: MIT OR Apache-2.0

// Package trace reads what the recorder wrote and checks the stacks by the program's own code: does each return address
// follow a call, does that call lead to the frame below, and does the stack end where stacks begin.
package trace

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Sample is one stack, leaf first. All addresses but the first are return addresses.
type Sample struct {
	Thread     int
	Truncation int
	Frames     []uint64
}

// Mapping is a line of /proc/self/maps.
type Mapping struct {
	Low, High, Offset uint64
	Path              string
}

// Trace is one recorder file.
type Trace struct {
	Samples  []Sample
	Mappings []Mapping
	Before   map[uint64][]byte // the bytes in front of an address
}

// Read parses a recorder file.
func Read(path string) (*Trace, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	t := &Trace{Before: map[uint64][]byte{}}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if err := t.add(lines.Text()); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", path, lines.Text(), err)
		}
	}
	return t, lines.Err()
}

func (t *Trace) add(line string) error {
	kind, rest, _ := strings.Cut(line, " ")
	fields := strings.Fields(rest)
	switch kind {
	case "map":
		return t.addMapping(fields)
	case "sample":
		return t.addSample(fields)
	case "code":
		address, err := strconv.ParseUint(fields[0], 16, 64)
		if err == nil {
			t.Before[address], err = hex.DecodeString(fields[1])
		}
		return err
	}
	return nil
}

func (t *Trace) addMapping(fields []string) error {
	var m Mapping
	if _, err := fmt.Sscanf(fields[0]+" "+fields[2], "%x-%x %x", &m.Low, &m.High, &m.Offset); err != nil {
		return err
	}
	if len(fields) > 5 {
		m.Path = fields[5]
	}
	t.Mappings = append(t.Mappings, m)
	return nil
}

func (t *Trace) addSample(fields []string) error {
	var s Sample
	var err error
	if s.Thread, err = strconv.Atoi(fields[0]); err != nil {
		return err
	}
	if s.Truncation, err = strconv.Atoi(fields[1]); err != nil {
		return err
	}
	for _, field := range fields[2:] {
		address, err := strconv.ParseUint(field, 16, 64)
		if err != nil {
			return err
		}
		s.Frames = append(s.Frames, address)
	}
	t.Samples = append(t.Samples, s)
	return nil
}

// file is the path of the mapping that holds an address.
func (t *Trace) file(address uint64) string {
	for _, m := range t.Mappings {
		if address >= m.Low && address < m.High {
			return m.Path
		}
	}
	return ""
}

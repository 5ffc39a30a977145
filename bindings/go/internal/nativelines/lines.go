// SPDX-License-Identifier: MIT OR Apache-2.0

package nativelines

import (
	"bytes"
	"debug/dwarf"
	"debug/elf"
	"encoding/binary"
	"strings"
)

// mostFiles is more than any unit has.
const mostFiles = 1 << 20

// Forms that entries of directories and files may have.
var (
	formBytes  = map[uint64]uint64{0x0b: 1, 0x05: 2, 0x06: 4, 0x07: 8, 0x1e: 16, 0x25: 1, 0x26: 2, 0x27: 3, 0x28: 4}
	formOffset = map[uint64]bool{0x0e: true, 0x1d: true, 0x1f: true} // into another section
)

const (
	formString = 0x08
	formBlock  = 0x09
	formUdata  = 0x0f
	formStrx   = 0x1a
)

// debugName is what stands behind .debug_ or .zdebug_, or empty.
func debugName(section *elf.Section) string {
	name, is := strings.CutPrefix(section.Name, ".debug_")
	if !is {
		name, is = strings.CutPrefix(section.Name, ".zdebug_")
	}
	if !is {
		return ""
	}
	return name
}

// describe takes the sections that are read, so far as they are needed for the addresses, which are sorted. elf.File.DWARF
// takes them whole, and does not show which bytes it took: a file may have several sections of a name. It gives steps, too:
// as many as bytes, and those for addresses, of which compilers put each one into less than mostCalls entries. `all`: units
// that the index does not lead to are wanted, too.
func describe(file *debugFile, wanted []uint64, all bool) (*reader, error) {
	r := &reader{wanted: wanted, left: len(wanted) * mostCalls, calls: map[uint64][]call{}, lines: map[uint64]dwarf.LineEntry{},
		names: map[dwarf.Offset]call{}}
	chosen := map[string]*elf.Section{}
	for _, section := range file.Sections {
		if name := debugName(section); name != "" {
			chosen[name] = section
		}
	}
	content := map[string]*section{}
	for _, name := range []string{"abbrev", "info", "line", "ranges", "str", "addr", "line_str", "str_offsets", "rnglists",
		"aranges"} {
		part, err := file.section(chosen[name])
		if err != nil {
			return nil, err
		}
		if name != "info" && name != "line" {
			if err := r.fill(part, 0, uint64(len(part.data))); err != nil {
				return nil, err
			}
		}
		content[name] = part
	}
	abbrev := append(content["abbrev"].data, 0) // a table without abbreviations is at its end
	r.tables = content["line"]
	if err := r.readIndex(content["info"], content["aranges"].data, file.ByteOrder, all, uint64(len(abbrev)-1)); err != nil {
		return nil, err
	}
	var err error
	r.data, err = dwarf.New(abbrev, nil, nil, r.info, r.tables.data, nil, content["ranges"].data, content["str"].data)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"addr", "line_str", "str_offsets", "rnglists"} {
		if err := r.data.AddSection(".debug_"+name, content[name].data); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// fill counts the bytes, which are steps.
func (r *reader) fill(part *section, from, to uint64) error {
	fresh, err := part.fill(from, to)
	r.left += fresh
	return err
}

// lineTable makes a table of lines be there, and returns it.
func (r *reader) lineTable(at uint64) []byte {
	all := r.tables.data
	if at > uint64(len(all)) || r.fill(r.tables, at, at+12) != nil {
		return nil
	}
	t := &table{rest: all[at:], order: r.data.Reader().ByteOrder()}
	length, _ := t.unitLength()
	end := uint64(len(all)-len(t.rest)) + min(length, uint64(len(t.rest)))
	if r.fill(r.tables, at, end) != nil {
		return nil
	}
	return all[at:end]
}

// table is what is left of a line table's header.
type table struct {
	rest   []byte
	order  binary.ByteOrder
	broken bool
}

func (t *table) take(n uint64) []byte {
	if n > uint64(len(t.rest)) {
		t.rest, t.broken = nil, true
		return nil
	}
	taken := t.rest[:n]
	t.rest = t.rest[n:]
	return taken
}

func (t *table) byte() uint64 {
	if b := t.take(1); b != nil {
		return uint64(b[0])
	}
	return 0
}

func (t *table) number() uint64 {
	n, length := binary.Uvarint(t.rest)
	t.broken = t.broken || length <= 0
	t.take(uint64(max(length, 0)))
	return n
}

// countsFit says whether a line table's header has room for the directories and files that it announces. debug/dwarf
// makes room for as many as it is told, which ends the process where there is no memory, and there is no recovering
// from that.
func countsFit(header []byte, order binary.ByteOrder) bool {
	t := &table{rest: header, order: order}
	offsetBytes := uint64(4)
	if length := t.take(4); length != nil && order.Uint32(length) == 1<<32-1 {
		offsetBytes = 8
		t.take(8)
	}
	if version := t.take(2); version != nil && order.Uint16(version) < 5 {
		return true // no counts: an empty name ends a list
	}
	t.take(2 + offsetBytes + 5)
	if opcodes := t.byte(); opcodes > 0 {
		t.take(opcodes - 1)
	}
	directoriesFit := t.entriesFit(offsetBytes)
	return directoriesFit && t.entriesFit(offsetBytes) // the files follow
}

// entriesFit goes over the directories or the files.
func (t *table) entriesFit(offsetBytes uint64) bool {
	forms := make([]uint64, t.byte())
	for i := range forms {
		t.number() // what it is
		forms[i] = t.number()
	}
	count := t.number()
	if t.broken || count > min(uint64(len(t.rest)), mostFiles) {
		return false
	}
	for range count {
		for _, form := range forms {
			t.skip(form, offsetBytes)
		}
		if t.broken {
			return false
		}
	}
	return true
}

func (t *table) skip(form, offsetBytes uint64) {
	switch {
	case formOffset[form]:
		t.take(offsetBytes)
	case form == formUdata || form == formStrx:
		t.number()
	case form == formBlock:
		t.take(t.number())
	case form == formString:
		text, _, _ := bytes.Cut(t.rest, []byte{0})
		t.take(uint64(len(text)) + 1)
	case formBytes[form] > 0:
		t.take(formBytes[form])
	default:
		t.broken = true
	}
}

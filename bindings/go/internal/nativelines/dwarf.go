// SPDX-License-Identifier: MIT OR Apache-2.0

package nativelines

import (
	"debug/dwarf"
	"encoding/binary"
	"slices"
)

// call is a function around an address, inlined or not.
type call struct {
	name      string
	startLine int64
	file      string // where it is called from, if inlined
	line      int64
}

// reader looks up the addresses of one file.
type reader struct {
	data   *dwarf.Data
	info   []byte
	roots  []dwarf.Offset // the outermost entries of units that may hold a wanted address
	veiled []span         // what of info is not there
	beyond bool           // something was asked for that is not there
	tables *section       // of lines
	left   int            // steps that may still be taken
	wanted []uint64       // sorted
	calls  map[uint64][]call
	lines  map[uint64]dwarf.LineEntry
	names  map[dwarf.Offset]call // of abstract functions
}

// read looks the addresses up in the module's debug information. Broken information gives less, or nothing.
func (m *module) read(wanted []uint64) (frames map[uint64][]Frame) {
	// debug/elf and debug/dwarf check what they read, but not so well that a hostile file could never make them panic.
	defer func() {
		if recover() != nil {
			frames = nil
		}
	}()
	file := m.open()
	if file == nil {
		return nil
	}
	defer file.Close()
	if debugBytes(file) > maxDebugBytes {
		return nil
	}
	var r *reader
	for _, all := range []bool{false, true} {
		var err error
		if r, err = describe(file, wanted, all); err == errIndex {
			continue
		}
		if err != nil {
			return nil
		}
		if r.readUnits(); !r.beyond {
			break
		}
	}
	return r.frames()
}

// debugBytes is at most a little more than the limit: sizes come from the file, and their sum may not fit.
func debugBytes(file *debugFile) (sum uint64) {
	for _, section := range file.Sections {
		if debugName(section) != "" {
			if section.Name[1] == 'z' {
				section.Open() // then Size is that of the unpacked section, as it is of the others
			}
			sum += min(section.Size, maxDebugBytes+1)
		}
	}
	return sum
}

// within returns the wanted addresses in a half-open range.
func (r *reader) within(low, high uint64) []uint64 {
	first, _ := slices.BinarySearch(r.wanted, low)
	end, _ := slices.BinarySearch(r.wanted, max(low, high))
	return r.wanted[first:end]
}

func (r *reader) inEntry(entry *dwarf.Entry) (inside []uint64) {
	ranges, err := r.data.Ranges(entry)
	if err != nil || !r.spend(len(ranges)) {
		return nil
	}
	for _, pair := range ranges {
		found := r.within(pair[0], pair[1])
		if !r.spend(len(found)) {
			return nil
		}
		inside = append(inside, found...)
	}
	return inside
}

func (r *reader) readUnits() {
	units := r.data.Reader()
	for _, root := range r.roots {
		units.Seek(root)
		if unit := r.next(units); unit != nil && unit.Tag == dwarf.TagCompileUnit && len(r.inEntry(unit)) > 0 {
			r.readUnit(units, unit)
		}
	}
}

// readUnit takes the reader behind the unit's outermost entry.
func (r *reader) readUnit(entries *dwarf.Reader, unit *dwarf.Entry) {
	table, _ := unit.Val(dwarf.AttrStmtList).(int64)
	if header := r.lineTable(uint64(table)); header == nil || !countsFit(header, r.data.Reader().ByteOrder()) {
		return
	}
	lines, err := r.data.LineReader(unit)
	if err != nil {
		return
	}
	var files []*dwarf.LineFile
	if lines != nil {
		r.readLines(lines)
		files = lines.Files()
		r.spend(len(files))
	}
	if unit.Children {
		r.readEntries(entries, files)
	}
}

// readLines notes the row of each wanted address: the last one at or before it, in a sequence that goes on behind it.
func (r *reader) readLines(lines *dwarf.LineReader) {
	var previous, row dwarf.LineEntry
	for started := false; lines.Next(&row) == nil && r.spend(1); started = !row.EndSequence {
		if started {
			found := r.within(previous.Address, row.Address)
			if !r.spend(len(found)) {
				return
			}
			for _, address := range found {
				r.lines[address] = previous
			}
		}
		previous = row
	}
}

// readEntries goes through what can hold functions, and into functions that hold a wanted address.
func (r *reader) readEntries(entries *dwarf.Reader, files []*dwarf.LineFile) {
	for depth := 1; depth > 0; {
		entry := r.next(entries)
		if entry == nil {
			return
		}
		enter := entry.Children
		switch entry.Tag {
		case 0:
			depth--
			continue
		case dwarf.TagSubprogram, dwarf.TagInlinedSubroutine:
			most := mostCalls
			if entry.Tag == dwarf.TagSubprogram { // an address lies in one of them; more are other names of it
				most = 1
			}
			inside := slices.DeleteFunc(r.inEntry(entry), func(address uint64) bool { return len(r.calls[address]) >= most })
			r.note(inside, entry, files)
			enter = enter && len(inside) > 0
		case dwarf.TagNamespace, dwarf.TagModule, dwarf.TagLexDwarfBlock:
		default:
			enter = false
		}
		if enter {
			depth++
		} else {
			r.skip(entries, entry)
		}
	}
}

// note adds the entry's function to what is around the addresses. In the place of the last call that there is room for stands
// that there are more.
func (r *reader) note(addresses []uint64, entry *dwarf.Entry, files []*dwarf.LineFile) {
	if len(addresses) == 0 {
		return
	}
	found := r.callOf(entry, files)
	for _, address := range addresses {
		if len(r.calls[address]) == mostCalls-1 {
			r.calls[address] = append(r.calls[address], call{name: moreCalls, file: found.file, line: found.line})
		} else {
			r.calls[address] = append(r.calls[address], found)
		}
	}
}

func (r *reader) callOf(entry *dwarf.Entry, files []*dwarf.LineFile) call {
	c := r.function(entry, 0)
	c.line, _ = entry.Val(dwarf.AttrCallLine).(int64)
	if number, ok := entry.Val(dwarf.AttrCallFile).(int64); ok && number >= 0 && int(number) < len(files) && files[number] != nil {
		c.file = files[number].Name
	}
	return c
}

// function is an entry's name and first line, which its abstract origin or its declaration may have instead.
func (r *reader) function(entry *dwarf.Entry, hops int) (c call) {
	c.name, _ = entry.Val(dwarf.AttrLinkageName).(string)
	c.startLine, _ = entry.Val(dwarf.AttrDeclLine).(int64)
	for _, attribute := range []dwarf.Attr{dwarf.AttrAbstractOrigin, dwarf.AttrSpecification} {
		offset, ok := entry.Val(attribute).(dwarf.Offset)
		if !ok || hops > 4 || (c.name != "" && c.startLine != 0) {
			continue
		}
		if r.isVeiled(offset) { // by optimization of the whole program an origin lies in another unit
			r.beyond = true
			continue
		}
		other, known := r.names[offset]
		if !known {
			of := r.data.Reader()
			of.Seek(offset)
			if origin, err := of.Next(); err == nil && origin != nil {
				other = r.function(origin, hops+1)
			}
			r.names[offset] = other
		}
		if c.name == "" {
			c.name = other.name
		}
		if c.startLine == 0 {
			c.startLine = other.startLine
		}
	}
	if c.name == "" {
		c.name, _ = entry.Val(dwarf.AttrName).(string)
	}
	return c
}

// frames turns calls, outermost first, around their order: the innermost function is at the row's line, each other one
// where it calls the one inside.
func (r *reader) frames() map[uint64][]Frame {
	found := map[uint64][]Frame{}
	for address, calls := range r.calls {
		row, ok := r.lines[address]
		if !ok || row.File == nil {
			continue
		}
		frames := make([]Frame, 0, len(calls))
		file, line := row.File.Name, int64(row.Line)
		for _, c := range slices.Backward(calls) {
			if c.name == "" { // in a file that this one shares with others (dwz), which is not read
				frames = nil
				break
			}
			frames = append(frames, Frame{Name: c.name, File: file, Line: line, StartLine: c.startLine})
			file, line = c.file, c.line
		}
		found[address] = frames
	}
	return found
}

// unitCompile is the type of a unit of code, where a unit says its type.
const unitCompile = 1

// unitPlace is where a unit begins and ends, and where its outermost entry is.
type unitPlace struct {
	start, root, end uint64
	code             bool // not one of types
}

// units returns all units. debug/dwarf gets from one to the next too, but decodes all of the last unit and of each unit of
// types on the way.
func units(info []byte, order binary.ByteOrder) (places []unitPlace) {
	t := &table{rest: info, order: order}
	for len(t.rest) > 0 {
		start := uint64(len(info) - len(t.rest))
		length, offsetBytes := t.unitLength()
		at := uint64(len(info) - len(t.rest))
		unit := t.take(length)
		if len(unit) < 3 {
			continue
		}
		place := unitPlace{start: start, root: at + uint64(2+offsetBytes+1), end: at + length, code: true}
		if order.Uint16(unit) >= 5 {
			place.root++
			place.code = unit[2] == unitCompile
		}
		places = append(places, place)
	}
	return places
}

// unitLength also says how long offsets into sections are.
func (t *table) unitLength() (length uint64, offsetBytes int) {
	if b := t.take(4); b != nil {
		length = uint64(t.order.Uint32(b))
	}
	if length != 1<<32-1 {
		return length, 4
	}
	if b := t.take(8); b != nil {
		length = t.order.Uint64(b)
	}
	return length, 8
}

// spend says whether that many steps were left. There are as many as bytes that are read, four times what the files of
// compilers take, and those for addresses. A file whose entries share what is below them, or ranges, or lines, or addresses,
// would be read for hours.
func (r *reader) spend(steps int) bool {
	r.left -= steps
	return r.left >= 0
}

// next is nil at the end, and where entries are broken.
func (r *reader) next(entries *dwarf.Reader) *dwarf.Entry {
	entry, err := entries.Next()
	if err != nil || entry == nil || !r.spend(1+len(entry.Field)) {
		return nil
	}
	return entry
}

// skip goes over what is below the entry that was just read. Reader.SkipChildren calls itself for each level, and when
// millions of them have taken up the stack, the process ends.
func (r *reader) skip(entries *dwarf.Reader, entry *dwarf.Entry) {
	for depth := 0; entry != nil; entry = r.next(entries) {
		sibling, _ := entry.Val(dwarf.AttrSibling).(dwarf.Offset)
		switch {
		case entry.Tag == 0:
			depth--
		case entry.Children && sibling > entry.Offset:
			entries.Seek(sibling)
		case entry.Children:
			depth++
		}
		if depth == 0 {
			return
		}
	}
}

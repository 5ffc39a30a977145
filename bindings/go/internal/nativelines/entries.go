// SPDX-License-Identifier: MIT OR Apache-2.0

package nativelines

import (
	"debug/dwarf"
	"encoding/binary"
)

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

// SPDX-License-Identifier: MIT OR Apache-2.0

package nativelines

import (
	"debug/dwarf"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
)

// index is what .debug_aranges says of units: which of them hold the wanted addresses. GCC and assemblers write it for each
// unit, Clang for none.
type index struct {
	holders map[uint64]bool // where units with wanted addresses begin
	listed  map[uint64]bool // where all units begin that it tells of
	whole   bool            // there is no wanted address that it does not know
}

// indexUnits reads the table. Of a broken one nothing is believed, and then all units are looked at.
func (r *reader) indexUnits(ranges []byte, order binary.ByteOrder) (x index) {
	x = index{holders: map[uint64]bool{}, listed: map[uint64]bool{}}
	known := make([]bool, len(r.wanted))
	t := &table{rest: ranges, order: order}
	for len(t.rest) > 0 {
		length, offsetBytes := t.unitLength()
		set := t.take(length)
		header := 2 + offsetBytes + 2
		if t.broken || len(set) < header || order.Uint16(set) != 2 {
			return index{}
		}
		unit := uint64(order.Uint32(set[2:]))
		if offsetBytes == 8 {
			unit = order.Uint64(set[2:])
		}
		if set[header-2] != 8 || set[header-1] != 0 { // bytes of addresses, and of segments
			continue
		}
		x.listed[unit] = true
		// Pairs lie at multiples of their size, counted from the length.
		before := offsetBytes + header
		if offsetBytes == 8 {
			before += 4
		}
		set = set[min(header+(16-before%16)%16, len(set)):]
		for ; len(set) >= 16; set = set[16:] {
			low, bytes := order.Uint64(set), order.Uint64(set[8:])
			if low == 0 || bytes == 0 { // of a function that the linker left out, or the end
				continue
			}
			found := r.within(low, low+bytes)
			if !r.spend(1 + len(found)) {
				return index{}
			}
			if len(found) == 0 {
				continue
			}
			x.holders[unit] = true
			first, _ := slices.BinarySearch(r.wanted, found[0])
			for i := range found {
				known[first+i] = true
			}
		}
	}
	x.whole = !slices.Contains(known, false)
	return x
}

// needs says whether a unit may hold a wanted address.
func (x *index) needs(start uint64) bool {
	return x.holders[start] || !x.whole && !x.listed[start]
}

// unitHeader is the shortest header of a unit that debug/dwarf reads.
const unitHeader = 4 + 2 + 4 + 1

// veil makes one unit of bytes that nobody needs, with an empty table of abbreviations. debug/dwarf would read the table of
// each unit, needed or not.
func veil(unneeded []byte, order binary.ByteOrder, emptyAt uint64) bool {
	if len(unneeded) < unitHeader || uint64(len(unneeded)) > 1<<31 || emptyAt > 1<<31 {
		return false
	}
	order.PutUint32(unneeded, uint32(len(unneeded)-4))
	order.PutUint16(unneeded[4:], 4)
	order.PutUint32(unneeded[6:], uint32(emptyAt))
	unneeded[10] = 8
	return true
}

// span is a range of .debug_info.
type span struct{ start, end uint64 }

// readIndex chooses the units that may hold a wanted address, and makes them be there.
func (r *reader) readIndex(info *section, ranges []byte, order binary.ByteOrder, all bool, emptyAt uint64) error {
	var x index
	if !all {
		x = r.indexUnits(ranges, order)
	}
	needed, err := r.neededUnits(info, &x, order)
	if err != nil {
		return err
	}
	r.info = info.data
	if x.whole && len(needed) > 0 {
		r.info = info.data[:needed[len(needed)-1].end]
	}
	begin := uint64(0) // of what nobody needs
	hide := func(end uint64) {
		if end > begin && veil(r.info[begin:end], order, emptyAt) {
			r.veiled = append(r.veiled, span{begin, end})
		}
	}
	for _, u := range needed {
		hide(u.start)
		begin = u.end
		if u.code {
			r.roots = append(r.roots, dwarf.Offset(u.root))
		}
	}
	if len(needed) > 0 {
		hide(uint64(len(r.info)))
	}
	return nil
}

// neededUnits returns the units in their order. Where the index knows all addresses, it leads to them; else one unit leads
// to the next.
func (r *reader) neededUnits(info *section, x *index, order binary.ByteOrder) (needed []unitPlace, err error) {
	if !x.whole {
		if err := r.fill(info, 0, uint64(len(info.data))); err != nil {
			return nil, err
		}
		places := units(info.data, order)
		return slices.DeleteFunc(places, func(u unitPlace) bool { return !x.needs(u.start) }), nil
	}
	end := uint64(0)
	for _, start := range slices.Sorted(maps.Keys(x.holders)) {
		if start < end || start > uint64(len(info.data)) {
			return nil, errIndex
		}
		if err := r.fill(info, start, start+12); err != nil {
			return nil, err
		}
		t := &table{rest: info.data[start:], order: order}
		length, _ := t.unitLength()
		if t.broken || length > uint64(len(t.rest)) {
			return nil, errIndex
		}
		end = uint64(len(info.data)-len(t.rest)) + length
		if err := r.fill(info, start, end); err != nil {
			return nil, err
		}
		places := units(info.data[start:end], order)
		if len(places) != 1 {
			return nil, errIndex
		}
		places[0].start, places[0].root, places[0].end = start, start+places[0].root, end
		needed = append(needed, places[0])
	}
	return needed, nil
}

// errIndex is that the index leads to something that is no unit.
var errIndex = errors.New("index of other debug information")

// isVeiled says whether an entry is in a unit that is not there.
func (r *reader) isVeiled(offset dwarf.Offset) bool {
	at := uint64(offset)
	return at >= uint64(len(r.info)) ||
		slices.ContainsFunc(r.veiled, func(s span) bool { return at >= s.start && at < s.end })
}

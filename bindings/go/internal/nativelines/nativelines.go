// SPDX-License-Identifier: MIT OR Apache-2.0

// Package nativelines finds source lines and inlined functions of native code in DWARF debug information, of the files
// that are mapped or of their separate debug files. It is for writing profiles, not for taking them.
package nativelines

import (
	"slices"
	"sync"
)

// Frame is a function at an address.
type Frame struct {
	Name      string // as in the symbol table, where the debug information has that
	File      string
	Line      int64
	StartLine int64 // where the function is declared; 0: unknown
}

const (
	// maxDebugBytes of one file are read; the largest programs have more, and then names but no lines.
	maxDebugBytes = 512 << 20
	// maxCached results are kept between profiles. Continuous profiling asks for the same ones again and again.
	maxCached = 1 << 16
)

// place is an address in a file, wherever that is mapped.
type place struct {
	file    string // its identity: the build id, or the path and what the file is like
	address uint64 // virtual, as in the file
}

var cache = struct {
	sync.Mutex
	frames map[place][]Frame // also of addresses without a result: nil
}{frames: map[place][]Frame{}}

// Find returns the functions at look-up addresses of this process, the innermost inlined one first. Addresses that no
// debug information covers have no entry.
func Find(addresses []uint64) map[uint64][]Frame {
	found := map[uint64][]Frame{}
	for _, m := range mapped(addresses) {
		for address, frames := range m.find() {
			if len(frames) > 0 {
				found[address] = frames
			}
		}
	}
	return found
}

// find looks up the addresses in one module, from the cache as far as possible.
func (m *module) find() map[uint64][]Frame {
	identity := m.identity()
	found := map[uint64][]Frame{}
	missing := map[uint64]uint64{} // file's address -> ours
	cache.Lock()
	for _, address := range m.addresses {
		inFile, ok := m.toFile(address)
		if !ok {
			continue
		}
		if frames, ok := cache.frames[place{identity, inFile}]; ok {
			found[address] = frames
		} else {
			missing[inFile] = address
		}
	}
	cache.Unlock()
	if len(missing) == 0 {
		return found
	}
	wanted := make([]uint64, 0, len(missing))
	for inFile := range missing {
		wanted = append(wanted, inFile)
	}
	slices.Sort(wanted)
	fresh := m.read(wanted)
	cache.Lock()
	defer cache.Unlock()
	if len(cache.frames)+len(wanted) > maxCached {
		clear(cache.frames)
	}
	for _, inFile := range wanted {
		found[missing[inFile]] = fresh[inFile]
		cache.frames[place{identity, inFile}] = fresh[inFile]
	}
	return found
}

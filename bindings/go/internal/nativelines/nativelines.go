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
	// mostReaders files are read at a time: most profiles have addresses in the program and in the C library.
	mostReaders = 2
	// maxCached addresses and frames of theirs are kept between profiles. Continuous profiling asks for the same ones again and
	// again.
	maxCached = 1 << 18
	// mostCalls are told of an address, inlined ones included: five times what deep templates have. Of more, the outermost
	// ones, and moreCalls in the place of those inside.
	mostCalls = 256
	moreCalls = "[more inlined calls]"
)

// place is an address in a file, wherever that is mapped.
type place struct {
	file    string // its identity: the build id, or the path and what the file is like
	address uint64 // virtual, as in the file
}

var cache = struct {
	sync.Mutex
	frames map[place][]Frame // also of addresses without a result: nil
	size   int
}{frames: map[place][]Frame{}}

// Find returns the functions at look-up addresses of this process, the innermost inlined one first. Addresses that no
// debug information covers have no entry.
func Find(addresses []uint64) map[uint64][]Frame {
	found := map[uint64][]Frame{}
	modules := mapped(addresses)
	answers := make(chan map[uint64][]Frame, len(modules))
	places := make(chan struct{}, mostReaders)
	for _, m := range modules {
		places <- struct{}{}
		go func() {
			answers <- m.find()
			<-places
		}()
	}
	for range modules {
		for address, frames := range <-answers {
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
	for _, inFile := range wanted {
		found[missing[inFile]] = fresh[inFile]
		keep(place{identity, inFile}, fresh[inFile])
	}
	return found
}

// keep puts a result into the cache, which begins anew where it is full.
func keep(at place, frames []Frame) {
	if cache.size += 1 + len(frames); cache.size > maxCached {
		clear(cache.frames)
		cache.size = 1 + len(frames)
	}
	cache.frames[at] = frames // not there, but for a reader beside this one that has found the same
}

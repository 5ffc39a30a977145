// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build linux

package nativelines

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"
)

// Files on disk are anybody's: debug information of any content gives something or nothing, for the addresses that
// were asked for alone, never fails, and takes little more memory than is allowed: where there is none the process ends.
func FuzzRead(f *testing.F) {
	seeds, err := filepath.Glob("testdata/debug/*")
	if err != nil || len(seeds) == 0 {
		f.Fatal("testdata/debug is missing", err)
	}
	for _, seed := range seeds {
		data, err := os.ReadFile(seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	path := filepath.Join(f.TempDir(), "library")
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		clear(seen.stamps) // each time another file
		m := module{path: path, inode: inode(info)}
		wanted := []uint64{0, 1, 0x210, 0x214, 0x220, 0x228, 0x22e, 0x236, 0x240, 0x244, 1 << 40, 1<<64 - 1}
		// A worker that hangs is not noticed by `go test -fuzz` itself.
		hung := time.AfterFunc(2*time.Minute, func() { panic("reading this file does not end") })
		defer hung.Stop()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		found := m.read(wanted)
		runtime.ReadMemStats(&after)
		if taken := after.TotalAlloc - before.TotalAlloc; taken > 2*maxDebugBytes {
			t.Fatalf("%d MiB for a file of %d bytes", taken>>20, len(data))
		}
		for address, frames := range found {
			if !slices.Contains(wanted, address) {
				t.Fatalf("%#x was not asked for", address)
			}
			for _, frame := range frames {
				if frame.Name == "" {
					t.Fatalf("a frame without a name at %#x", address)
				}
			}
		}
	})
}

// A build id lies inside its notes.
func FuzzBuildID(f *testing.F) {
	note := binary.LittleEndian.AppendUint32(nil, 4)
	note = binary.LittleEndian.AppendUint32(note, 3)
	note = append(binary.LittleEndian.AppendUint32(note, 3), "GNU\x00\x01\x02\x03\x00"...)
	f.Add(note)
	f.Add(append([]byte("\x01\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00a\x00\x00\x00b\x00\x00\x00"), note...))
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff\x03\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, notes []byte) {
		if id := buildID(notes); id != nil && (len(id) == 0 || len(id) > len(notes)-16) {
			t.Fatalf("%d bytes of id in %d of notes", len(id), len(notes))
		}
	})
}

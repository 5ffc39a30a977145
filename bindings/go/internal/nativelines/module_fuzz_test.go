// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build linux

package nativelines

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"slices"
	"strings"
	"testing"
)

const someMaps = `00400000-00401000 r--p 00000000 08:01 11 /bin/program
00401000-00409000 r-xp 00001000 08:01 11 /bin/program
7f0000000000-7f0000010000 r-xp 00000000 fd:00 18446744073709551615 /lib/with space.so
7f0000010000-7f0000020000 rwxp 00000000 00:00 0
7f0000020000-7f0000030000 r-xp 00000000 08:01 12 /lib/gone.so (deleted)
7ffc00000000-7ffc00002000 r-xp 00000000 00:00 0 [vdso]
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]
`

// Names of files are anybody's, and so are the lines that they stand in: what is found lies where it is said to lie, and
// was asked for.
func FuzzMaps(f *testing.F) {
	f.Add([]byte(someMaps), uint64(0x401234), uint64(0x7f0000000000), uint64(0))
	f.Add([]byte("2-1 r-xp 0 0:0 1 /a\n"), uint64(1), uint64(2), uint64(3))
	f.Add([]byte("0-ffffffffffffffff r-xp 0 0:0 1 /a\n"), uint64(0), uint64(1), uint64(1<<64-1))
	f.Add([]byte("1-9 r-xp 0 0:0 1 /a\n1-9 r-xp 5 0:0 1 /a\n4-5 r-xp 7 0:0 2 /a/b c"), uint64(4), uint64(4), uint64(8))
	f.Fuzz(func(t *testing.T, text []byte, one, two, three uint64) {
		asked := []uint64{one, two, three}
		for _, m := range readMaps(bytes.NewReader(text), asked) {
			if !strings.HasPrefix(m.path, "/") || strings.HasSuffix(m.path, " (deleted)") || m.image == 0 {
				t.Fatalf("%q with an image at %#x", m.path, m.image)
			}
			if len(m.addresses) == 0 || !slices.IsSorted(m.addresses) {
				t.Fatalf("%s for %#x", m.path, m.addresses)
			}
			for _, address := range m.addresses {
				if address < m.start || address >= m.limit || !slices.Contains(asked, address) {
					t.Fatalf("%#x of %#x is in %#x to %#x", address, asked, m.start, m.limit)
				}
			}
		}
	})
}

// someImage is the beginning of a library: a header, a segment of code, and notes with a build id.
func someImage() []byte {
	note := append(binary.LittleEndian.AppendUint32([]byte{4, 0, 0, 0}, 4), "\x03\x00\x00\x00GNU\x00\x01\x02\x03\x04"...)
	programs := []elf.Prog64{
		{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X), Vaddr: 0x1000, Filesz: 0x800},
		{Type: uint32(elf.PT_NOTE), Off: 64 + 2*56, Filesz: uint64(len(note))},
	}
	header := elf.Header64{Ident: [16]byte{0x7f, 'E', 'L', 'F', 2, 1, 1}, Phoff: 64, Phentsize: 56, Phnum: 2}
	var image bytes.Buffer
	binary.Write(&image, binary.LittleEndian, header)
	binary.Write(&image, binary.LittleEndian, programs)
	image.Write(note)
	return image.Bytes()
}

func TestImage(t *testing.T) {
	m := module{image: 3}
	m.readImage(bytes.NewReader(append([]byte("abc"), someImage()...)))
	if string(m.buildID) != "\x01\x02\x03\x04" || len(m.segments) != 1 {
		t.Errorf("build id %x, segments %v", m.buildID, m.segments)
	}
	if at, ok := m.toFile(0x7ff); at != 0x17ff || !ok {
		t.Errorf("%#x %v", at, ok)
	}
	if _, ok := m.toFile(0x800); ok {
		t.Error("an address behind the segment is in it")
	}
}

// Memory at any address may hold anything, or end anywhere: an address of it leads into a segment of code, or nowhere.
func FuzzImage(f *testing.F) {
	whole := someImage()
	f.Add(whole, uint64(0), uint64(0x123))
	f.Add(append([]byte("abc"), whole...), uint64(3), uint64(0))
	f.Add(whole[:len(whole)-1], uint64(0), uint64(0x800))
	f.Add(whole[:70], uint64(0), uint64(0))
	f.Add(whole, uint64(1<<63), uint64(1<<64-1))
	f.Fuzz(func(t *testing.T, memory []byte, image, address uint64) {
		m := module{image: image}
		m.readImage(bytes.NewReader(memory))
		if len(m.buildID) > len(memory) {
			t.Fatalf("%d bytes of id in %d", len(m.buildID), len(memory))
		}
		if len(m.segments) > len(memory)/binary.Size(elf.Prog64{}) {
			t.Fatalf("%d segments in %d bytes", len(m.segments), len(memory))
		}
		at, ok := m.toFile(address)
		inside := func(s elf.ProgHeader) bool { return s.Flags&elf.PF_X != 0 && at-s.Vaddr < s.Filesz }
		if ok && !slices.ContainsFunc(m.segments, inside) {
			t.Fatalf("%#x became %#x, in none of %+v", address, at, m.segments)
		}
		if again := (module{image: image, buildID: m.buildID}); again.identity() == "" {
			t.Fatal("a module that is nobody")
		}
	})
}

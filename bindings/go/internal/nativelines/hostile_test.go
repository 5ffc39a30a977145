// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build linux

package nativelines

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// abbreviations: 1 is a unit of 0x1000 bytes with children, 2 is a type with children and nothing else.
var abbreviations = []byte{1, 0x11, 1, 0x11, 0x01, 0x12, 0x0b, 0, 0, 2, 0x13, 1, 0, 0, 0}

// unit is one at an address, with these bytes of entries below.
func unit(address uint64, entries []byte) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(2+4+1+1+8+1+len(entries)))
	b = append(b, 4, 0, 0, 0, 0, 0, 8, 1)
	return append(append(binary.LittleEndian.AppendUint64(b, address), 0x40), entries...)
}

// moduleWith is a file of this debug information, as if it were mapped.
func moduleWith(t *testing.T, info []byte) *module {
	t.Helper()
	names := "\x00.debug_abbrev\x00.debug_info\x00.debug_line\x00.shstrtab\x00"
	const noHeader = "\x02\x00\x00\x00\x04\x00" // of a table of lines
	var headers []elf.Section64
	content := make([]byte, 64)
	for _, b := range [][]byte{nil, abbreviations, info, []byte(noHeader), []byte(names)} {
		name := []uint32{0, 1, 15, 27, 39}[len(headers)]
		headers = append(headers, elf.Section64{Name: name, Type: uint32(elf.SHT_PROGBITS), Off: uint64(len(content)),
			Size: uint64(len(b)), Addralign: 1})
		content = append(content, b...)
	}
	headers[0], headers[4].Type = elf.Section64{}, uint32(elf.SHT_STRTAB)
	file := bytes.NewBuffer(content)
	at := len(content)
	binary.Write(file, binary.LittleEndian, headers)
	var start bytes.Buffer
	binary.Write(&start, binary.LittleEndian, elf.Header64{Ident: [16]byte{0x7f, 'E', 'L', 'F', 2, 1, 1}, Type: 3, Machine: 62,
		Version: 1, Shoff: uint64(at), Ehsize: 64, Shentsize: 64, Shnum: 5, Shstrndx: 4})
	copy(file.Bytes(), start.Bytes())
	path := filepath.Join(t.TempDir(), "hostile.so")
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	stat, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return &module{path: path, inode: inode(stat)}
}

const hostileEnv = "ONSTACK_TEST_HOSTILE"

// Kilobytes of a compressed section become millions of levels. Where they take stack the process ends, whatever recovers,
// so a child reads them.
func TestDeepEntriesTakeNoStack(t *testing.T) {
	if os.Getenv(hostileEnv) == "" {
		command := exec.Command(os.Args[0], "-test.run=^TestDeepEntriesTakeNoStack$")
		command.Env = append(os.Environ(), hostileEnv+"=1")
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%.1000s", err, out)
		}
		return
	}
	deep := slices.Repeat([]byte{2}, 16<<20)
	for _, address := range []uint64{0x1000, 0x8000} { // in the last unit, and beside it
		moduleWith(t, unit(0x1000, deep)).read([]uint64{address})
	}
}

// Entries that nothing ends go on in the next unit, and each unit here holds the address: read to the end from each one,
// they would take an hour.
func TestUnendedUnitsAreNotReadAgainAndAgain(t *testing.T) {
	moduleWith(t, bytes.Repeat(unit(0x1000, []byte{2}), 500_000)).read([]uint64{0x1000})
}

// SPDX-License-Identifier: MIT OR Apache-2.0

package nativelines

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// module is a mapped file with executable code, and the addresses that are asked for in it.
type module struct {
	start, limit, offset uint64 // of the executable mapping
	image                uint64 // where the file's first byte is mapped; 0: unknown
	inode                uint64
	path                 string
	buildID              []byte // of the code in memory
	segments             []elf.ProgHeader
	addresses            []uint64
}

// mapped returns the modules of this process that hold some of the addresses.
func mapped(addresses []uint64) []*module {
	text, directory := ownMaps()
	modules := readMaps(bytes.NewReader(text), addresses)
	// The memory is read through the kernel: a library may be unmapped meanwhile.
	memory, err := os.Open(directory + "/mem")
	if err != nil {
		return modules
	}
	defer memory.Close()
	for _, m := range modules {
		m.readImage(memory)
	}
	return modules
}

// ownMaps returns the kernel's list of this process's mappings, and the directory in /proc that has it. The directory of the
// process is that of its first thread: in a C program the first thread may have ended before the others, and then it shows no
// mappings, while those of the other threads do (Linux 3.17).
func ownMaps() (text []byte, directory string) {
	for _, directory = range []string{"/proc/self", "/proc/thread-self"} {
		if text, _ = os.ReadFile(directory + "/maps"); len(text) > 0 {
			break
		}
	}
	return text, directory
}

// readMaps returns the modules in the kernel's list of mappings that hold some of the addresses.
func readMaps(text io.Reader, addresses []uint64) []*module {
	addresses = slices.Sorted(slices.Values(addresses))
	var modules []*module
	images := map[string]uint64{}
	for lines := bufio.NewScanner(text); lines.Scan(); {
		m, executable, ok := parseMapping(lines.Text())
		if !ok {
			continue
		}
		if m.offset == 0 {
			images[m.path] = m.start
		}
		m.image = images[m.path]
		first, _ := slices.BinarySearch(addresses, m.start)
		end, _ := slices.BinarySearch(addresses, max(m.start, m.limit))
		if m.addresses = addresses[first:end]; executable && end > first && m.image != 0 {
			modules = append(modules, m)
		}
	}
	return modules
}

// parseMapping reads a line of the kernel's list; not ok: it is of no file, or of one that has no name any more.
func parseMapping(line string) (m *module, executable, ok bool) {
	m = &module{}
	var mode, device string
	n, _ := fmt.Sscanf(line, "%x-%x %s %x %s %d", &m.start, &m.limit, &mode, &m.offset, &device, &m.inode)
	slash := strings.IndexByte(line, '/')
	if n != 6 || slash < 0 || strings.HasSuffix(line, " (deleted)") {
		return nil, false, false
	}
	m.path = line[slash:]
	return m, strings.Contains(mode, "x"), true
}

// readImage takes segments and build id from the image in memory, so that they fit the code that ran.
func (m *module) readImage(memory io.ReaderAt) {
	image := io.NewSectionReader(memory, int64(m.image), 1<<40)
	var header elf.Header64
	if binary.Read(image, binary.LittleEndian, &header) != nil || string(header.Ident[:4]) != elf.ELFMAG {
		return
	}
	programs := make([]elf.Prog64, header.Phnum)
	if binary.Read(io.NewSectionReader(image, int64(header.Phoff), 1<<16), binary.LittleEndian, programs) != nil {
		return
	}
	for _, p := range programs {
		if elf.ProgType(p.Type) == elf.PT_LOAD {
			m.segments = append(m.segments, elf.ProgHeader{Type: elf.PT_LOAD, Flags: elf.ProgFlag(p.Flags), Off: p.Off,
				Vaddr: p.Vaddr, Filesz: p.Filesz})
		}
		if elf.ProgType(p.Type) == elf.PT_NOTE && m.buildID == nil && p.Filesz < 1<<16 {
			// Notes lie in the first segment, where offsets in the file and in the image are the same.
			note := make([]byte, p.Filesz)
			if _, err := image.ReadAt(note, int64(p.Off)); err == nil {
				m.buildID = buildID(note)
			}
		}
	}
}

// buildID is the GNU build id among notes, or nil. One of no bytes is none: all files that have it would be the same.
func buildID(notes []byte) []byte {
	align := func(n uint32) uint64 { return (uint64(n) + 3) &^ 3 }
	for len(notes) >= 12 {
		nameBytes, bytes, kind := binary.LittleEndian.Uint32(notes), binary.LittleEndian.Uint32(notes[4:]),
			binary.LittleEndian.Uint32(notes[8:])
		end := 12 + align(nameBytes) + align(bytes)
		if uint64(len(notes)) < end {
			return nil
		}
		if kind == 3 && bytes > 0 && string(notes[12:12+nameBytes]) == "GNU\x00" {
			at := 12 + align(nameBytes)
			return slices.Clone(notes[at : at+uint64(bytes)])
		}
		notes = notes[end:]
	}
	return nil
}

func (m *module) identity() string {
	if m.buildID != nil {
		return string(m.buildID)
	}
	// What was read stays with the file that it was read from.
	if info, err := os.Stat(m.path); err == nil {
		return fmt.Sprint(m.path, " ", m.inode, " ", stampOf(info))
	}
	return fmt.Sprint(m.path, " ", m.inode)
}

// toFile turns an address of the process into one of the file.
func (m *module) toFile(address uint64) (uint64, bool) {
	at := address - m.start + m.offset
	for _, s := range m.segments {
		if s.Flags&elf.PF_X != 0 && at >= s.Off && at-s.Off < s.Filesz {
			return at - s.Off + s.Vaddr, true
		}
	}
	return 0, false
}

// open returns the file that has the debug information: the module's own, or a separate one of the same build id. The
// caller closes it.
func (m *module) open() *debugFile {
	candidates := []string{m.path}
	if len(m.buildID) > 1 {
		id := hex.EncodeToString(m.buildID)
		candidates = append(candidates, "/usr/lib/debug/.build-id/"+id[:2]+"/"+id[2:]+".debug",
			"/usr/lib/debug"+m.path+".debug", m.path+".debug")
	}
	for _, path := range candidates {
		// A pipe in the place of a file would let us wait.
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
			continue
		}
		file, err := openDebugFile(path)
		if err != nil {
			continue
		}
		if file.Section(".debug_info") != nil || file.Section(".zdebug_info") != nil {
			if m.isSame(file, path) {
				return file
			}
		}
		file.Close()
	}
	return nil
}

// isSame tells a file that was replaced since it was mapped, or written over since it was first seen: by the build id, or
// else by its stamp.
func (m *module) isSame(file *debugFile, path string) bool {
	for _, section := range file.Sections {
		if section.Type != elf.SHT_NOTE || section.Size > 1<<16 {
			continue
		}
		if notes, err := section.Data(); err == nil {
			if id := buildID(notes); id != nil {
				return slices.Equal(id, m.buildID)
			}
		}
	}
	info, err := os.Stat(path)
	if err != nil || m.buildID != nil {
		return false
	}
	now := stampOf(info)
	return now.inode == m.inode && firstStamp(seenFile{m.path, m.inode}, now) == now
}

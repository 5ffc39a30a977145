// SPDX-License-Identifier: MIT OR Apache-2.0

package nativelines

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"strings"
)

// debugFile is a file that has debug information.
type debugFile struct {
	*elf.File
	raw  *os.File
	size uint64
	idle *inflater // of a section that is whole
}

// openDebugFile opens a regular file.
func openDebugFile(path string) (*debugFile, error) {
	raw, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := raw.Stat()
	if err == nil {
		var file *elf.File
		if file, err = elf.NewFile(raw); err == nil {
			return &debugFile{File: file, raw: raw, size: uint64(info.Size())}, nil
		}
	}
	raw.Close()
	return nil, err
}

func (f *debugFile) Close() { f.raw.Close() }

// section is one of debug information, of which those parts are read and unpacked that are needed: what is wanted is a few
// units of thousands.
type section struct {
	data   []byte // as long as all of it
	there  uint64 // up to here, parts of it are there
	gaps   bool   // but not all
	begun  bool   // from the beginning once more, and without gaps
	plain  io.ReaderAt
	packed *inflater
	again  func() (*inflater, error) // from the beginning
	done   func(*inflater)
}

var errSection = errors.New("section outside of its file")

// section returns the file's section, nothing of which is there yet; nil: an empty one.
func (f *debugFile) section(from *elf.Section) (*section, error) {
	if from == nil {
		return &section{}, nil
	}
	const ofPacked, ofZdebug = 24, 12 // bytes of headers
	inFile := from.Type != elf.SHT_NOBITS && from.Offset <= f.size && from.FileSize <= f.size-from.Offset
	if !inFile {
		return nil, errSection
	}
	packed := from.Flags&elf.SHF_COMPRESSED != 0
	switch {
	case packed && f.Class == elf.ELFCLASS64 && from.FileSize >= ofPacked:
		var header [ofPacked]byte
		if _, err := f.raw.ReadAt(header[:], int64(from.Offset)); err != nil {
			return nil, err
		}
		if elf.CompressionType(f.ByteOrder.Uint32(header[:])) == elf.COMPRESS_ZLIB {
			return f.packedSection(from, ofPacked, f.ByteOrder.Uint64(header[8:]))
		}
	case !packed && strings.HasPrefix(from.Name, ".zdebug_") && from.FileSize >= ofZdebug:
		var header [ofZdebug]byte
		if _, err := f.raw.ReadAt(header[:], int64(from.Offset)); err != nil {
			return nil, err
		}
		if string(header[:4]) == "ZLIB" {
			return f.packedSection(from, ofZdebug, binary.BigEndian.Uint64(header[4:]))
		}
	case !packed:
		plain := io.NewSectionReader(f.raw, int64(from.Offset), int64(from.FileSize))
		return &section{data: make([]byte, from.FileSize), plain: plain}, nil
	}
	data, err := from.Data()
	return &section{data: data, there: uint64(len(data))}, err
}

func (f *debugFile) packedSection(from *elf.Section, header, size uint64) (*section, error) {
	if size > maxDebugBytes {
		return nil, errSection
	}
	length := from.FileSize - header
	again := func() (*inflater, error) {
		packed := io.NewSectionReader(f.raw, int64(from.Offset+header), int64(length))
		if idle := f.idle; idle != nil {
			f.idle = nil
			return idle, idle.begin(packed, length, size)
		}
		return newInflater(packed, length, size)
	}
	return &section{data: make([]byte, size), again: again, done: func(whole *inflater) { f.idle = whole }}, nil
}

// fill makes a part be there, and says how many bytes it had to read for that. Those who go on from the beginning to the end
// have each byte unpacked once, others twice.
func (s *section) fill(from, to uint64) (fresh int, err error) {
	to = min(to, uint64(len(s.data)))
	if s.gaps && from < s.there {
		s.packed = nil
		s.there, s.gaps, s.begun = 0, false, true
	}
	if to <= s.there {
		return 0, nil
	}
	if from = min(max(from, s.there), to); s.begun {
		from = s.there
	}
	s.gaps = s.gaps || from > s.there
	if s.again != nil {
		err = s.unpack(from, to)
	} else {
		_, err = s.plain.ReadAt(s.data[from:to], int64(from))
	}
	if err != nil {
		return 0, err
	}
	fresh = int(to - s.there)
	s.there = to
	return fresh, nil
}

// unpack has an inflater while there is something left to unpack.
func (s *section) unpack(from, to uint64) (err error) {
	if s.packed == nil {
		if s.packed, err = s.again(); err != nil {
			s.packed = nil
			return err
		}
	}
	if err = s.packed.unpack(s.data, from, to); err == nil && to == uint64(len(s.data)) {
		s.done(s.packed)
		s.packed = nil
	}
	return err
}

// SPDX-License-Identifier: MIT OR Apache-2.0

package nativelines

import (
	"bufio"
	"compress/zlib"
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

var errPacked = errors.New("broken packed data")

const mostRatio = 1032 // bytes that one packed byte can become: a copy of 258 for two bits

// inflater unpacks a stream from its beginning on, as far as it is asked to.
type inflater struct {
	packed *bufio.Reader
	plain  io.ReadCloser
	there  uint64 // unpacked so far
}

// newInflater unpacks so many packed bytes to `size` others.
func newInflater(packed io.ReaderAt, length, size uint64) (*inflater, error) {
	f := &inflater{packed: bufio.NewReaderSize(nil, 32<<10)}
	return f, f.begin(packed, length, size)
}

// begin does so with an inflater that is not used any more.
func (f *inflater) begin(packed io.ReaderAt, length, size uint64) (err error) {
	if size > length*mostRatio {
		return errPacked
	}
	f.packed.Reset(io.NewSectionReader(packed, 0, int64(length)))
	f.there = 0
	if f.plain == nil {
		f.plain, err = zlib.NewReader(f.packed)
		return err
	}
	return f.plain.(zlib.Resetter).Reset(f.packed, nil)
}

// unpack goes on to `to`, and puts what lies behind `from` into its place in `whole`. Neither is before that of the last call.
func (f *inflater) unpack(whole []byte, from, to uint64) error {
	if skipped, err := io.CopyN(io.Discard, f.plain, int64(max(from, f.there)-f.there)); err != nil {
		f.there += uint64(skipped)
		return errPacked
	}
	from = max(from, f.there)
	n, err := io.ReadFull(f.plain, whole[from:to])
	f.there = from + uint64(n)
	if err != nil && from < to {
		return errPacked
	}
	return nil
}

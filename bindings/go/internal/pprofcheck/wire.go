// SPDX-License-Identifier: MIT OR Apache-2.0

package pprofcheck

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

// Fields that google/pprof does not show: the times of a sample, and the mapping of a location if no such mapping exists.
const (
	sampleField     = 2
	locationField   = 4
	locationMapping = 2
	sampleTimes     = 1000 // onstack.h: ONSTACK_PPROF_SAMPLE_TIMES
)

// Times are the times of all samples of a profile, since its start, as onstack.h says that they are written.
func Times(packed []byte) (all []time.Duration, err error) {
	raw, err := unpacked(packed)
	if err != nil {
		return nil, err
	}
	err = each(raw, func(sample field) error {
		if sample.tag != 2 {
			return nil
		}
		return each(sample.bytes, func(times field) error {
			if times.tag != sampleTimes {
				return nil
			}
			numbers, err := times.numbers()
			if err != nil {
				return err
			}
			all = appendTimes(all, numbers)
			return nil
		})
	})
	return all, err
}

// appendTimes of one sample: each is a difference, and a bit that says whether a weight follows.
func appendTimes(all []time.Duration, numbers []uint64) []time.Duration {
	for at := int64(0); len(numbers) > 0; {
		since := numbers[0] >> 1
		at += int64(since>>1) ^ -int64(since&1)
		all = append(all, time.Duration(at)*time.Microsecond)
		numbers = numbers[min(1+int(numbers[0]&1), len(numbers)):]
	}
	return all
}

// checkMappings wants each location to name a mapping that is there, or none.
func checkMappings(packed []byte, count int) error {
	raw, err := unpacked(packed)
	if err != nil {
		return err
	}
	return each(raw, func(location field) error {
		if location.tag != locationField {
			return nil
		}
		return each(location.bytes, func(f field) error {
			if f.tag == locationMapping && f.value > uint64(count) {
				return fmt.Errorf("a location lies in mapping %d of %d", f.value, count)
			}
			return nil
		})
	})
}

// unpacked is the profile without its compression.
func unpacked(raw []byte) ([]byte, error) {
	if !bytes.HasPrefix(raw, []byte{0x1f, 0x8b}) {
		return raw, nil
	}
	reader, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(reader)
}

// Kinds of fields on the wire that profile.proto has.
const (
	kindNumber = 0
	kindBytes  = 2
)

var errCut = errors.New("a field is longer than its message")

// number takes a varint off the front.
func number(in []byte) (value uint64, rest []byte, err error) {
	value, length := binary.Uvarint(in)
	if length <= 0 {
		return 0, nil, errCut
	}
	return value, in[length:], nil
}

// field is one of a message: a number, or bytes.
type field struct {
	tag   uint64
	kind  uint64
	value uint64
	bytes []byte
}

// numbers of a repeated field, packed or not.
func (f field) numbers() (all []uint64, err error) {
	if f.kind == kindNumber {
		return []uint64{f.value}, nil
	}
	for rest := f.bytes; len(rest) > 0; {
		var value uint64
		if value, rest, err = number(rest); err != nil {
			return nil, err
		}
		all = append(all, value)
	}
	return all, nil
}

// each calls take for every field of a message.
func each(message []byte, take func(field) error) error {
	for len(message) > 0 {
		key, rest, err := number(message)
		if err != nil {
			return err
		}
		f := field{tag: key >> 3, kind: key & 7}
		if f.value, rest, err = number(rest); err != nil {
			return err
		}
		switch f.kind {
		case kindNumber:
		case kindBytes:
			if f.value > uint64(len(rest)) {
				return errCut
			}
			f.bytes, rest = rest[:f.value], rest[f.value:]
		default:
			return fmt.Errorf("field %d has wire type %d, which no profile has", f.tag, f.kind)
		}
		if err := take(f); err != nil {
			return err
		}
		message = rest
	}
	return nil
}

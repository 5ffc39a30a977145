// SPDX-License-Identifier: MIT OR Apache-2.0

package pprofcheck

import (
	"encoding/binary"
	"errors"
	"fmt"
)

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

// scalars of a message by their numbers; what is repeated is not asked for.
func scalars(message []byte) (map[uint64]uint64, error) {
	values := map[uint64]uint64{}
	err := each(message, func(f field) error {
		if f.kind == kindNumber {
			values[f.tag] = f.value
		}
		return nil
	})
	return values, err
}

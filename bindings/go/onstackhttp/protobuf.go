// SPDX-License-Identifier: MIT OR Apache-2.0

package onstackhttp

import (
	"encoding/binary"
	"iter"
)

// protoField is a field of a protobuf message: a number, or bytes.
type protoField struct {
	number uint64
	value  uint64
	body   []byte
}

// protoFields ends early where the message is damaged, or cut.
func protoFields(message []byte) iter.Seq[protoField] {
	return func(yield func(protoField) bool) {
		for len(message) > 0 {
			field, size := nextProtoField(message)
			if size == 0 || !yield(field) {
				return
			}
			message = message[size:]
		}
	}
}

// nextProtoField says how long the field is; 0: damaged.
func nextProtoField(message []byte) (field protoField, size int) {
	key, n := binary.Uvarint(message)
	if n <= 0 {
		return field, 0
	}
	field.number, size = key>>3, n
	rest := message[n:]
	switch key & 7 {
	case 0:
		field.value, n = binary.Uvarint(rest)
	case 1:
		n = 8
	case 2:
		length, head := binary.Uvarint(rest)
		if head <= 0 || length > uint64(len(rest)-head) {
			return field, 0
		}
		field.body, n = rest[head:head+int(length)], head+int(length)
	case 5:
		n = 4
	default:
		n = 0
	}
	if n <= 0 || n > len(rest) {
		return field, 0
	}
	return field, size + n
}

// protoBodies are those of the fields with a number.
func protoBodies(message []byte, number uint64) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for field := range protoFields(message) {
			if field.number == number && field.body != nil && !yield(field.body) {
				return
			}
		}
	}
}

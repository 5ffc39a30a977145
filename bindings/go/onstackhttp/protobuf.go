// SPDX-License-Identifier: MIT OR Apache-2.0

package onstackhttp

import (
	"iter"

	"google.golang.org/protobuf/encoding/protowire"
)

// protoField is a field of an encoded message: a number, or a body.
type protoField struct {
	number protowire.Number
	value  uint64
	body   []byte
}

// protoFields ends early if the message is damaged or cut.
func protoFields(message []byte) iter.Seq[protoField] {
	return func(yield func(protoField) bool) {
		for len(message) > 0 {
			number, kind, head := protowire.ConsumeTag(message)
			if head < 0 {
				return
			}
			size := protowire.ConsumeFieldValue(number, kind, message[head:])
			if size < 0 {
				return
			}
			field, content := protoField{number: number}, message[head:head+size]
			switch kind {
			case protowire.VarintType:
				field.value, _ = protowire.ConsumeVarint(content)
			case protowire.BytesType:
				field.body, _ = protowire.ConsumeBytes(content)
			}
			if !yield(field) {
				return
			}
			message = message[head+size:]
		}
	}
}

// protoBodies are those of the fields with a number.
func protoBodies(message []byte, number protowire.Number) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for field := range protoFields(message) {
			if field.number == number && field.body != nil && !yield(field.body) {
				return
			}
		}
	}
}

// SPDX-License-Identifier: MIT OR Apache-2.0

package onstackhttp

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"iter"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// otlpProtocol is OTLP over HTTP, with the profiles signal as WriteOTLP has it.
var otlpProtocol = pushProtocol{
	endpoint: "/v1development/profiles",
	example:  "http://localhost:4318",
	// Which of the signal's incompatible forms the body has.
	headers: http.Header{"Otlp-Profiles-Development-Version": {"1"}},
	prepare: prepareOTLP,
	take:    takeOTLP,
	address: func(t *pushTarget, _ *pushProfile) string { return t.url.String() },
	refused: refusedByOTLP,
	words:   wordsOfOTLP,
	// All others must not be repeated, as the specification says.
	again: func(status int, _ string) bool {
		return slices.Contains([]int{http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable,
			http.StatusGatewayTimeout}, status)
	},
}

const otlpContentType = "application/x-protobuf"

func prepareOTLP(t *pushTarget, o *PushOptions) error {
	if !isAttribute(o.Service) {
		return badPushOption("Service", "%q: give a name, in UTF-8", o.Service)
	}
	t.resource = map[string]string{"service.name": o.Service}
	for _, key := range slices.Sorted(maps.Keys(o.Labels)) {
		if !isAttribute(key) || key == "service.name" {
			return badPushOption("Labels", "name %q: give one, in UTF-8, and not Service's", key)
		}
		if value := o.Labels[key]; value != "" && !isAttribute(value) {
			return badPushOption("Labels", "%s=%q: give a value in UTF-8, without NUL", key, value)
		}
		t.resource[key] = o.Labels[key]
	}
	return nil
}

func isAttribute(text string) bool {
	return text != "" && utf8.ValidString(text) && !strings.Contains(text, "\x00")
}

func takeOTLP(t *pushTarget, source pushSource) (*pushProfile, error) {
	parsed, err := readBack(source.TakeTo)
	if err != nil || len(parsed.Sample) == 0 {
		return nil, err
	}
	message, err := otlpOf(parsed, t.resource)
	if err != nil {
		return nil, err
	}
	var gzipped bytes.Buffer
	packer := gzip.NewWriter(&gzipped)
	if _, err := packer.Write(message); err != nil {
		return nil, err
	}
	if err := packer.Close(); err != nil {
		return nil, err
	}
	header := http.Header{"Content-Type": {otlpContentType}, "Content-Encoding": {"gzip"}}
	// A buffer that grew by itself may hold twice as much.
	return &pushProfile{body: slices.Clip(bytes.Clone(gzipped.Bytes())), header: header}, nil
}

// refusedByOTLP reads a partial success: the server has taken some, and what it refused must not be sent again.
func refusedByOTLP(response *http.Response, answer []byte) string {
	if !isProtobuf(response) {
		return ""
	}
	for partial := range protoBodies(answer, 1) { // ExportProfilesServiceResponse.partial_success
		rejected, words := uint64(0), ""
		for field := range protoFields(partial) {
			switch field.number {
			case 1:
				rejected = field.value
			case 2:
				words = string(field.body)
			}
		}
		if rejected != 0 {
			return fmt.Sprintf("the server has refused %d of its parts: %s", rejected, words)
		}
	}
	return ""
}

// wordsOfOTLP is the message of a google.rpc.Status, or the answer itself.
func wordsOfOTLP(response *http.Response, answer []byte) (words string) {
	if !isProtobuf(response) {
		return string(answer)
	}
	for message := range protoBodies(answer, 2) {
		words = string(message)
	}
	return words
}

func isProtobuf(response *http.Response) bool {
	kind, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	return err == nil && kind == otlpContentType
}

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

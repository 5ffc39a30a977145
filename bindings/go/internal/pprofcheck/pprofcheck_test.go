// SPDX-License-Identifier: MIT OR Apache-2.0

package pprofcheck

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"strings"
	"testing"
)

// message of numbers, each behind its field's number.
func message(pairs ...uint64) (out []byte) {
	for i := 0; i < len(pairs); i += 2 {
		out = binary.AppendUvarint(out, pairs[i]<<3)
		out = binary.AppendUvarint(out, pairs[i+1])
	}
	return out
}

// with adds a field of bytes.
func with(out []byte, tag uint64, content []byte) []byte {
	out = binary.AppendUvarint(out, tag<<3|kindBytes)
	out = binary.AppendUvarint(out, uint64(len(content)))
	return append(out, content...)
}

// parts of a profile that keeps every rule: two mappings, functions and locations, one sample of both with two labels.
func parts() map[string][]byte {
	label := func(key, text uint64) []byte { return message(1, key, 2, text) }
	return map[string][]byte{
		"type":      message(1, 1, 2, 2),
		"sample":    with(with(message(1, 1, 1, 2, 2, 7), 3, label(3, 4)), 3, label(4, 3)),
		"mapping1":  message(1, 1, 2, 4096, 3, 8192, 5, 3, 6, 4),
		"mapping2":  message(1, 2),
		"location1": with(message(1, 1, 2, 1, 3, 5000), 4, message(1, 1)),
		"location2": with(message(1, 2), 4, message(1, 2)),
		"function1": message(1, 1, 2, 3, 3, 3),
		"function2": message(1, 2, 2, 4, 4, 1),
		"string3":   []byte("name"),
		"comment":   message(13, 4),
	}
}

func whole(p map[string][]byte) (out []byte) {
	for _, part := range []struct {
		name string
		tag  uint64
	}{{"type", 1}, {"sample", 2}, {"mapping1", 3}, {"mapping2", 3}, {"location1", 4}, {"location2", 4}, {"function1", 5},
		{"function2", 5}} {
		if content, there := p[part.name]; there {
			out = with(out, part.tag, content)
		}
	}
	for _, text := range []string{"", "samples", "count", string(p["string3"]), "worker"} {
		out = with(out, 6, []byte(text))
	}
	return append(out, p["comment"]...)
}

func TestSoundProfilesPass(t *testing.T) {
	sound := whole(parts())
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	_, _ = writer.Write(sound)
	_ = writer.Close()
	for _, raw := range [][]byte{sound, packed.Bytes()} {
		if err := Check(raw); err != nil {
			t.Error(err)
		}
	}
}

// Each of these makes one server or the other refuse the profile, or drop samples of it.
func TestEachRuleIsAsked(t *testing.T) {
	label := message(1, 3, 2, 4)
	line := func(function uint64) []byte { return with(message(1, 2), 4, message(1, function)) }
	for what, c := range map[string]struct {
		part    string
		content []byte
		want    string
	}{
		"location ids with a gap":         {"location2", with(message(1, 3), 4, message(1, 2)), "nil location"},
		"a location twice":                {"location2", with(message(1, 1), 4, message(1, 2)), "nil location"},
		"function ids out of order":       {"function1", message(1, 2), "multiple functions with same id: 2"},
		"a mapping without an id":         {"mapping2", message(2, 4096), "reserved ID=0"},
		"mapping ids with a gap":          {"mapping2", message(1, 3), "mapping 3 stands at place 2"},
		"a mapping that is not there":     {"location1", with(message(1, 1, 2, 3), 4, message(1, 1)), "mapping 3 of 2"},
		"a function that is not there":    {"location2", line(3), "nil function"},
		"a line of no function":           {"location2", line(0), "nil function"},
		"a place that is nowhere":         {"location2", message(1, 2), "neither address nor function"},
		"a sample with no value":          {"sample", message(1, 1), "0 values vs. 1 types"},
		"a sample with no stack":          {"sample", message(2, 7), "no locations"},
		"a location that is not there":    {"sample", message(1, 3, 2, 7), "nil location"},
		"a frame of location 0":           {"sample", message(1, 0, 2, 7), "nil location"},
		"a label without a key":           {"sample", with(message(1, 1, 2, 7), 3, message(2, 4)), "without a key"},
		"a label twice":                   {"sample", with(with(message(1, 1, 2, 7), 3, label), 3, label), "2 labels \"name\""},
		"a label's text beyond the table": {"sample", with(message(1, 1, 2, 7), 3, message(1, 3, 2, 5)), "unrecognized profile format"},
		"a file beyond the table":         {"mapping1", message(1, 1, 5, 5), "unrecognized profile format"},
		"a name beyond the table":         {"function1", message(1, 1, 2, 9), "unrecognized profile format"},
		"a remark beyond the table":       {"comment", message(13, 5), "unrecognized profile format"},
		"text that is none":               {"string3", []byte("na\xffme"), "no UTF-8"},
		"a type with a hyphen":            {"string3", []byte("a-b"), "\"a-b\""},
		"more than the message has":       {"comment", []byte{13<<3 | kindBytes, 9}, "unrecognized profile format"},
	} {
		p := parts()
		p[c.part] = c.content
		if strings.Contains(what, "hyphen") {
			p["type"] = message(1, 3)
		}
		if err := Check(whole(p)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", what, err, c.want)
		}
	}
	p := parts()
	delete(p, "type")
	for _, raw := range [][]byte{whole(p), nil, []byte("\x1f\x8bnot gzip")} {
		if Check(raw) == nil {
			t.Errorf("%q is sound", raw)
		}
	}
}

// SPDX-License-Identifier: MIT OR Apache-2.0

package onstackhttp

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/pprof/profile"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	profiles "go.opentelemetry.io/proto/slim/otlp/profiles/v1development"
	resources "go.opentelemetry.io/proto/slim/otlp/resource/v1"
	"google.golang.org/protobuf/proto"

	onstack "github.com/onstack-profiler/onstack/bindings/go"
)

// WriteOTLP writes a profile for OpenTelemetry: an uncompressed ExportProfilesServiceRequest (which is also a
// ProfilesData) of opentelemetry-proto 1.11, package opentelemetry.proto.profiles.v1development. The signal is
// experimental there, and so is this function.
//
// from writes the profile in pprof's format, as *onstack.Profile does. resource has the attributes of the process, as
// {"service.name": "shop"}. Labels become attributes of the samples. The labels trace_id and span_id, in hexadecimal
// digits, become the sample's link to a span:
//
//	span := trace.SpanContextFromContext(ctx)
//	labels := pprof.Labels("trace_id", span.TraceID().String(), "span_id", span.SpanID().String())
//	pprof.Do(ctx, labels, handle)
//
// Errors: onstack.ErrOptions for an attribute without a key or with text that is not UTF-8, and those of from and w.
func WriteOTLP(w io.Writer, from io.WriterTo, resource map[string]string) error {
	for key, value := range resource {
		if key == "" || !utf8.ValidString(key) || !utf8.ValidString(value) {
			return fmt.Errorf("onstackhttp: resource attribute %q: give a key and a value in UTF-8: %w", key, onstack.ErrOptions)
		}
	}
	parsed, err := readBack(from.WriteTo)
	if err != nil {
		return err
	}
	message, err := otlpOf(parsed, resource)
	if err != nil {
		return err
	}
	_, err = w.Write(message)
	return err
}

// readBack parses what a profile writes in pprof's format.
func readBack(write func(io.Writer) (int64, error)) (*profile.Profile, error) {
	var raw bytes.Buffer
	if _, err := write(&raw); err != nil {
		return nil, err
	}
	return profile.ParseData(raw.Bytes())
}

// scopeVersion is onstack's version, kept by ci/check-versions.py.
const scopeVersion = "0.1.0"

// otlpOf is the message for a profile. The attributes have names that OpenTelemetry's own translator reads.
func otlpOf(p *profile.Profile, resource map[string]string) ([]byte, error) {
	var e otlpEncoder
	scope := &common.InstrumentationScope{Name: "onstack", Version: scopeVersion}
	order := otlpColumns(p)
	if p.DefaultSampleType != "" {
		scope.Attributes = append(scope.Attributes, keyValue("pprof.scope.default_sample_type", textValue(p.DefaultSampleType)))
	}
	var columns []*common.AnyValue
	for _, column := range order {
		columns = append(columns, &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: int64(column)}})
	}
	scope.Attributes = append(scope.Attributes, keyValue("pprof.scope.sample_type_order", listValue(columns)))
	all := &profiles.ScopeProfiles{Scope: scope}
	samples := make([]*profiles.Sample, len(p.Sample))
	for i, sample := range p.Sample {
		samples[i] = e.sample(sample)
	}
	for _, column := range order {
		all.Profiles = append(all.Profiles, e.profile(p, samples, column))
	}
	data := &profiles.ProfilesData{
		ResourceProfiles: []*profiles.ResourceProfiles{{
			Resource:      otlpResource(p, resource),
			ScopeProfiles: []*profiles.ScopeProfiles{all},
		}},
		Dictionary: &profiles.ProfilesDictionary{
			MappingTable:   e.mappings.all(&profiles.Mapping{}),
			LocationTable:  e.locations.all(&profiles.Location{}),
			FunctionTable:  e.functions.all(&profiles.Function{}),
			LinkTable:      e.links.all(&profiles.Link{}),
			StringTable:    e.strings.all(""),
			AttributeTable: e.pairs.all(&profiles.KeyValueAndUnit{}),
			StackTable:     e.stacks.all(&profiles.Stack{}),
		},
	}
	return proto.Marshal(data)
}

// otlpColumns has the sample types' indexes: first the one that readers show, which is the last unless the profile names another.
func otlpColumns(p *profile.Profile) (columns []int) {
	shown := slices.IndexFunc(p.SampleType, func(one *profile.ValueType) bool { return one.Type == p.DefaultSampleType })
	if shown < 0 {
		shown = len(p.SampleType) - 1
	}
	for i := range p.SampleType {
		if i == shown {
			columns = slices.Insert(columns, 0, i)
		} else {
			columns = append(columns, i)
		}
	}
	return columns
}

// otlpResource has a service.name in any case: OpenTelemetry requires one.
func otlpResource(p *profile.Profile, given map[string]string) *resources.Resource {
	resource := &resources.Resource{}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		resource.Attributes = append(resource.Attributes, keyValue(key, textValue(given[key])))
	}
	if _, has := given["service.name"]; !has {
		name := "unknown_service"
		if len(p.Mapping) > 0 && p.Mapping[0].File != "" {
			name += ":" + path.Base(p.Mapping[0].File)
		}
		resource.Attributes = append(resource.Attributes, keyValue("service.name", textValue(name)))
	}
	return resource
}

// otlpTable has each entry once. Entry 0 is the empty one, which means none.
type otlpTable[K comparable, V any] struct {
	numbers map[K]int32
	entries []V
}

// number is that of the key's entry, which is made if it is missing.
func (t *otlpTable[K, V]) number(key K, make func() V) int32 {
	if number, has := t.numbers[key]; has {
		return number
	}
	if t.numbers == nil {
		t.numbers = map[K]int32{}
	}
	entry := make() // may add others to this table
	t.entries = append(t.entries, entry)
	t.numbers[key] = int32(len(t.entries))
	return t.numbers[key]
}

func (t *otlpTable[K, V]) all(none V) []V { return append([]V{none}, t.entries...) }

// otlpEncoder has the tables that all profiles of a message share.
type otlpEncoder struct {
	strings   otlpTable[string, string]
	mappings  otlpTable[*profile.Mapping, *profiles.Mapping]
	functions otlpTable[*profile.Function, *profiles.Function]
	locations otlpTable[*profile.Location, *profiles.Location]
	stacks    otlpTable[string, *profiles.Stack]
	links     otlpTable[string, *profiles.Link]
	pairs     otlpTable[string, *profiles.KeyValueAndUnit]
}

func (e *otlpEncoder) text(text string) int32 {
	if text == "" {
		return 0
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	return e.strings.number(text, func() string { return text })
}

func (e *otlpEncoder) valueType(of *profile.ValueType) *profiles.ValueType {
	return &profiles.ValueType{TypeStrindex: e.text(of.Type), UnitStrindex: e.text(of.Unit)}
}

// profile has one column of the samples. A sample without a value there belongs to other profiles.
func (e *otlpEncoder) profile(p *profile.Profile, samples []*profiles.Sample, column int) *profiles.Profile {
	one := &profiles.Profile{
		SampleType:   e.valueType(p.SampleType[column]),
		TimeUnixNano: uint64(p.TimeNanos),
		DurationNano: uint64(p.DurationNanos),
		Period:       p.Period,
	}
	if p.PeriodType != nil {
		one.PeriodType = e.valueType(p.PeriodType)
	}
	for i, sample := range samples {
		if value := p.Sample[i].Value[column]; value != 0 {
			one.Samples = append(one.Samples, &profiles.Sample{
				StackIndex:       sample.StackIndex,
				AttributeIndices: sample.AttributeIndices,
				LinkIndex:        sample.LinkIndex,
				Values:           []int64{value},
			})
		}
	}
	if len(p.Comments) > 0 {
		var comments []*common.AnyValue
		for _, comment := range p.Comments {
			comments = append(comments, textValue(comment))
		}
		one.AttributeIndices = append(one.AttributeIndices, e.attribute("pprof.profile.comment", listValue(comments), ""))
	}
	for _, filter := range []struct{ key, frames string }{
		{"pprof.profile.drop_frames", p.DropFrames}, {"pprof.profile.keep_frames", p.KeepFrames},
	} {
		if filter.frames != "" {
			one.AttributeIndices = append(one.AttributeIndices, e.attribute(filter.key, textValue(filter.frames), ""))
		}
	}
	return one
}

// sample has everything but the values.
func (e *otlpEncoder) sample(from *profile.Sample) *profiles.Sample {
	sample := &profiles.Sample{StackIndex: e.stack(from.Location)}
	trace, span := spanID(from.Label["trace_id"], 16), spanID(from.Label["span_id"], 8)
	linked := trace != nil && span != nil
	if linked {
		sample.LinkIndex = e.links.number(string(trace)+string(span), func() *profiles.Link {
			return &profiles.Link{TraceId: trace, SpanId: span}
		})
	}
	for _, key := range slices.Sorted(maps.Keys(from.Label)) {
		if values := from.Label[key]; key != "" && len(values) > 0 && !(linked && (key == "trace_id" || key == "span_id")) {
			sample.AttributeIndices = append(sample.AttributeIndices, e.attribute(attributeKey(key), textValue(values[0]), ""))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(from.NumLabel)) {
		_, isText := from.Label[key]
		if values := from.NumLabel[key]; key != "" && !isText && len(values) > 0 {
			unit := ""
			if units := from.NumUnit[key]; len(units) > 0 {
				unit = units[0]
			}
			number := &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: values[0]}}
			sample.AttributeIndices = append(sample.AttributeIndices, e.attribute(attributeKey(key), number, unit))
		}
	}
	return sample
}

// attributeKey is OpenTelemetry's name for the labels of threads.
func attributeKey(label string) string {
	switch label {
	case "thread":
		return "thread.name"
	case "thread_id":
		return "thread.id"
	}
	return label
}

// spanID reads an id in hexadecimal digits; nil if there is none. An id of zeros means none.
func spanID(values []string, size int) []byte {
	if len(values) == 0 {
		return nil
	}
	id, err := hex.DecodeString(values[0])
	if err != nil || len(id) != size || !slices.ContainsFunc(id, func(b byte) bool { return b != 0 }) {
		return nil
	}
	return id
}

func (e *otlpEncoder) stack(from []*profile.Location) int32 {
	locations := make([]int32, len(from))
	for i, location := range from {
		locations[i] = e.location(location)
	}
	return e.stacks.number(fmt.Sprint(locations), func() *profiles.Stack { return &profiles.Stack{LocationIndices: locations} })
}

func (e *otlpEncoder) location(from *profile.Location) int32 {
	return e.locations.number(from, func() *profiles.Location {
		location := &profiles.Location{Address: from.Address}
		if from.Mapping != nil {
			location.MappingIndex = e.mapping(from.Mapping)
		}
		if language := languageOf(from); language != "" {
			location.AttributeIndices = append(location.AttributeIndices, e.attribute("profile.frame.type", textValue(language), ""))
		}
		if from.IsFolded {
			location.AttributeIndices = append(location.AttributeIndices, e.attribute("pprof.location.is_folded", yes(), ""))
		}
		for _, line := range from.Line {
			one := &profiles.Line{Line: line.Line, Column: line.Column}
			if line.Function != nil {
				one.FunctionIndex = e.function(line.Function)
			}
			location.Lines = append(location.Lines, one)
		}
		return location
	})
}

func (e *otlpEncoder) function(from *profile.Function) int32 {
	return e.functions.number(from, func() *profiles.Function {
		return &profiles.Function{
			NameStrindex:       e.text(from.Name),
			SystemNameStrindex: e.text(from.SystemName),
			FilenameStrindex:   e.text(from.Filename),
			StartLine:          from.StartLine,
		}
	})
}

func (e *otlpEncoder) mapping(from *profile.Mapping) int32 {
	return e.mappings.number(from, func() *profiles.Mapping {
		mapping := &profiles.Mapping{
			MemoryStart:      from.Start,
			MemoryLimit:      from.Limit,
			FileOffset:       from.Offset,
			FilenameStrindex: e.text(from.File),
		}
		if from.BuildID != "" {
			mapping.AttributeIndices = append(mapping.AttributeIndices,
				e.attribute("process.executable.build_id.gnu", textValue(from.BuildID), ""))
		}
		for _, flag := range []struct {
			name string
			set  bool
		}{
			{"functions", from.HasFunctions}, {"filenames", from.HasFilenames},
			{"line_numbers", from.HasLineNumbers}, {"inline_frames", from.HasInlineFrames},
		} {
			if flag.set {
				mapping.AttributeIndices = append(mapping.AttributeIndices, e.attribute("pprof.mapping.has_"+flag.name, yes(), ""))
			}
		}
		return mapping
	})
}

func (e *otlpEncoder) attribute(key string, value *common.AnyValue, unit string) int32 {
	encoded, _ := proto.Marshal(value) // has no error, because textValue makes UTF-8
	return e.pairs.number(key+"\x00"+unit+"\x00"+string(encoded), func() *profiles.KeyValueAndUnit {
		return &profiles.KeyValueAndUnit{KeyStrindex: e.text(key), Value: value, UnitStrindex: e.text(unit)}
	})
}

// languageOf reads the language of a location's function from its source file, or from the form of a Rust symbol. Go's
// assembly has C's file names, but its functions have a package. Generated code has no known language.
func languageOf(location *profile.Location) string {
	if location.Mapping == nil || location.Mapping.File == "" || strings.HasPrefix(location.Mapping.File, "//") ||
		strings.HasPrefix(location.Mapping.File, "[") {
		return ""
	}
	if len(location.Line) == 0 || location.Line[len(location.Line)-1].Function == nil {
		return "native"
	}
	function := location.Line[len(location.Line)-1].Function // the one that the code was compiled for
	switch file, name := function.Filename, function.SystemName; {
	case strings.HasSuffix(file, ".go"), strings.HasSuffix(file, ".s") && strings.Contains(name, "."):
		return "go"
	case strings.HasSuffix(file, ".rs"), isRustSymbol(name):
		return "rust"
	}
	return "native"
}

// isRustSymbol knows both forms. The older one ends in a part of 17 characters, a hash.
func isRustSymbol(name string) bool {
	return strings.HasPrefix(name, "_R") || strings.HasPrefix(name, "_ZN") && strings.HasSuffix(name, "E") &&
		len(name) > 20 && strings.HasPrefix(name[len(name)-20:], "17h")
}

func keyValue(key string, value *common.AnyValue) *common.KeyValue {
	return &common.KeyValue{Key: key, Value: value}
}

func textValue(text string) *common.AnyValue {
	return &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: strings.ToValidUTF8(text, "\uFFFD")}}
}

func listValue(values []*common.AnyValue) *common.AnyValue {
	return &common.AnyValue{Value: &common.AnyValue_ArrayValue{ArrayValue: &common.ArrayValue{Values: values}}}
}

func yes() *common.AnyValue {
	return &common.AnyValue{Value: &common.AnyValue_BoolValue{BoolValue: true}}
}

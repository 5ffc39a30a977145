// SPDX-License-Identifier: MIT OR Apache-2.0

package otlp

import (
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"
)

// amounts are what each stack has, by all that is said of it: its frames with their lines, files and mappings, its labels.
type amounts map[string]int64

func add(to amounts, stack string, value int64) {
	if value != 0 {
		to[stack] += value
	}
}

// ofPprof has amounts for each sample type.
func ofPprof(p *profile.Profile) map[string]amounts {
	all := map[string]amounts{}
	for i, valueType := range p.SampleType {
		column := amounts{}
		for _, sample := range p.Sample {
			add(column, pprofStack(sample), sample.Value[i])
		}
		all[valueType.Type+"/"+valueType.Unit] = column
	}
	return all
}

func pprofStack(sample *profile.Sample) string {
	var text strings.Builder
	for _, location := range sample.Location {
		fmt.Fprintf(&text, "%#x", location.Address)
		if m := location.Mapping; m != nil {
			fmt.Fprintf(&text, " in %s[%#x-%#x+%#x %s %v%v%v%v]", m.File, m.Start, m.Limit, m.Offset, m.BuildID, m.HasFunctions,
				m.HasFilenames, m.HasLineNumbers, m.HasInlineFrames)
		}
		for _, line := range location.Line {
			f := line.Function
			fmt.Fprintf(&text, "\n  %s (%s) %s:%d from %d", f.Name, f.SystemName, f.Filename, line.Line, f.StartLine)
		}
		text.WriteByte('\n')
	}
	labels := map[string]string{}
	for key, values := range sample.Label {
		labels[key] = values[0]
	}
	for key, values := range sample.NumLabel {
		labels[key] = fmt.Sprint(values[0])
	}
	return text.String() + labelsText(labels)
}

// labelsText leaves out labels without a value: pprof's reader does not see them.
func labelsText(labels map[string]string) string {
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if labels[key] == "" {
			continue
		}
		fmt.Fprintf(&text, "%s=%q\n", key, labels[key])
	}
	return text.String()
}

// ofOTLP has the same of a message, in the words of pprof.
func ofOTLP(t testing.TB, all pprofile.Profiles) map[string]amounts {
	t.Helper()
	columns := map[string]amounts{}
	dictionary := all.Dictionary()
	checkTables(t, dictionary)
	for _, p := range profilesOf(all) {
		column := amounts{}
		for _, sample := range p.Samples().All() {
			if sample.Values().Len() != 1 || sample.TimestampsUnixNano().Len() != 0 {
				t.Fatalf("a sample has %d values and %d timestamps", sample.Values().Len(), sample.TimestampsUnixNano().Len())
			}
			add(column, otlpStack(t, dictionary, sample), sample.Values().At(0))
		}
		columns[typeText(dictionary, p.SampleType())] = column
	}
	return columns
}

func profilesOf(all pprofile.Profiles) []pprofile.Profile {
	var found []pprofile.Profile
	for _, resource := range all.ResourceProfiles().All() {
		for _, scope := range resource.ScopeProfiles().All() {
			for _, p := range scope.Profiles().All() {
				found = append(found, p)
			}
		}
	}
	return found
}

func typeText(dictionary pprofile.ProfilesDictionary, valueType pprofile.ValueType) string {
	strings := dictionary.StringTable()
	return strings.At(int(valueType.TypeStrindex())) + "/" + strings.At(int(valueType.UnitStrindex()))
}

// checkTables: entry 0 of each is there and says nothing; nothing is there twice.
func checkTables(t testing.TB, dictionary pprofile.ProfilesDictionary) {
	t.Helper()
	if dictionary.StringTable().At(0) != "" || !dictionary.MappingTable().At(0).Equal(pprofile.NewMapping()) ||
		!dictionary.LocationTable().At(0).Equal(pprofile.NewLocation()) ||
		!dictionary.FunctionTable().At(0).Equal(pprofile.NewFunction()) || !dictionary.StackTable().At(0).Equal(pprofile.NewStack()) ||
		!dictionary.AttributeTable().At(0).Equal(pprofile.NewKeyValueAndUnit()) || !dictionary.LinkTable().At(0).Equal(pprofile.NewLink()) {
		t.Fatal("an entry 0 of the dictionary says something")
	}
	once := map[string]bool{}
	single := func(kind string, values ...any) {
		text := kind + fmt.Sprint(values...)
		if once[text] {
			t.Fatalf("twice in the dictionary: %s", text)
		}
		once[text] = true
	}
	for _, text := range dictionary.StringTable().All() {
		single("string ", text)
	}
	for _, f := range dictionary.FunctionTable().All() {
		single("function ", f.NameStrindex(), f.SystemNameStrindex(), f.FilenameStrindex(), f.StartLine())
	}
	for _, stack := range dictionary.StackTable().All() {
		single("stack ", stack.LocationIndices().AsRaw())
	}
	for _, link := range dictionary.LinkTable().All() {
		single("link ", link.TraceID(), link.SpanID())
	}
	for _, attribute := range dictionary.AttributeTable().All() {
		single("attribute ", attribute.KeyStrindex(), attribute.Value().Type(), attribute.Value().AsString())
	}
}

func otlpStack(t testing.TB, dictionary pprofile.ProfilesDictionary, sample pprofile.Sample) string {
	t.Helper()
	var text strings.Builder
	strings := dictionary.StringTable()
	for _, index := range dictionary.StackTable().At(int(sample.StackIndex())).LocationIndices().All() {
		location := dictionary.LocationTable().At(int(index))
		fmt.Fprintf(&text, "%#x", location.Address())
		if location.MappingIndex() != 0 {
			text.WriteString(otlpMapping(t, dictionary, dictionary.MappingTable().At(int(location.MappingIndex()))))
		}
		for _, line := range location.Lines().All() {
			f := dictionary.FunctionTable().At(int(line.FunctionIndex()))
			fmt.Fprintf(&text, "\n  %s (%s) %s:%d from %d", strings.At(int(f.NameStrindex())), strings.At(int(f.SystemNameStrindex())),
				strings.At(int(f.FilenameStrindex())), line.Line(), f.StartLine())
		}
		text.WriteByte('\n')
	}
	return text.String() + labelsText(otlpLabels(t, dictionary, sample))
}

func otlpMapping(t testing.TB, dictionary pprofile.ProfilesDictionary, m pprofile.Mapping) string {
	t.Helper()
	said := attributes(t, dictionary, m)
	flag := func(name string) bool {
		value, ok := said.Get("pprof.mapping." + name)
		return ok && value.Bool()
	}
	buildID := ""
	if value, ok := said.Get("process.executable.build_id.gnu"); ok {
		buildID = value.Str()
	}
	return fmt.Sprintf(" in %s[%#x-%#x+%#x %s %v%v%v%v]", dictionary.StringTable().At(int(m.FilenameStrindex())), m.MemoryStart(),
		m.MemoryLimit(), m.FileOffset(), buildID, flag("has_functions"), flag("has_filenames"), flag("has_line_numbers"),
		flag("has_inline_frames"))
}

// otlpLabels are the labels that the attributes and the link were.
func otlpLabels(t testing.TB, dictionary pprofile.ProfilesDictionary, sample pprofile.Sample) map[string]string {
	t.Helper()
	labels := map[string]string{}
	for key, value := range attributes(t, dictionary, sample).All() {
		switch key {
		case "thread.name":
			key = "thread"
		case "thread.id":
			key = "thread_id"
			if value.Type() != pcommon.ValueTypeInt {
				t.Fatalf("thread.id is of type %v", value.Type())
			}
		}
		labels[key] = value.AsString()
	}
	if sample.LinkIndex() != 0 {
		link := dictionary.LinkTable().At(int(sample.LinkIndex()))
		if labels["trace_id"] != "" || labels["span_id"] != "" {
			t.Fatalf("a linked sample has the link as attributes as well: %v", labels)
		}
		trace, span := link.TraceID(), link.SpanID()
		labels["trace_id"], labels["span_id"] = hex.EncodeToString(trace[:]), hex.EncodeToString(span[:])
	}
	return labels
}

func attributes(t testing.TB, dictionary pprofile.ProfilesDictionary, of interface {
	AttributeIndices() pcommon.Int32Slice
}) pcommon.Map {
	t.Helper()
	found, err := pprofile.FromAttributeIndices(dictionary.AttributeTable(), of, dictionary)
	if err != nil {
		t.Fatal(err)
	}
	if found.Len() != of.AttributeIndices().Len() {
		t.Fatal("a key is there twice")
	}
	return found
}

// same fails where one has what the other has not: samples, values, labels, lines, and what is said of the whole.
func same(t testing.TB, p *profile.Profile, all pprofile.Profiles) {
	t.Helper()
	want, have := ofPprof(p), ofOTLP(t, all)
	if w, h := slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(have)); !slices.Equal(w, h) {
		t.Fatalf("sample types: %v in pprof, %v in OTLP", w, h)
	}
	for name, stacks := range want {
		sameAmounts(t, name, stacks, have[name])
	}
	dictionary := all.Dictionary()
	for i, one := range profilesOf(all) {
		if int64(one.Time()) != p.TimeNanos || int64(one.DurationNano()) != p.DurationNanos || one.Period() != p.Period ||
			typeText(dictionary, one.PeriodType()) != p.PeriodType.Type+"/"+p.PeriodType.Unit {
			t.Fatalf("time, duration or period: %v %v %v %v, in pprof %v %v %v", one.Time(), one.DurationNano(), one.Period(),
				typeText(dictionary, one.PeriodType()), p.TimeNanos, p.DurationNanos, p.Period)
		}
		said := attributes(t, dictionary, one)
		sameComments(t, p.Comments, said)
		for key, want := range map[string]string{"drop": p.DropFrames, "keep": p.KeepFrames} {
			have := ""
			if value, ok := said.Get("pprof.profile." + key + "_frames"); ok {
				have = value.Str()
			}
			if have != want {
				t.Fatalf("%s_frames: %q in OTLP, %q in pprof", key, have, want)
			}
		}
		if shown := p.DefaultSampleType; i == 0 && shown != "" && !strings.HasPrefix(typeText(dictionary, one.SampleType()), shown+"/") {
			t.Fatalf("the first is %s, and the default %s", typeText(dictionary, one.SampleType()), shown)
		}
	}
	sameOrder(t, p, all)
}

func sameAmounts(t testing.TB, name string, want, have amounts) {
	t.Helper()
	for stack, value := range have {
		if want[stack] != value {
			t.Errorf("%s: %d in OTLP, %d in pprof:\n%s", name, value, want[stack], stack)
		}
	}
	for stack, value := range want {
		if _, ok := have[stack]; !ok {
			t.Errorf("%s: none in OTLP, %d in pprof:\n%s", name, value, stack)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
}

func sameComments(t testing.TB, want []string, said pcommon.Map) {
	t.Helper()
	var have []string
	if value, ok := said.Get("pprof.profile.comment"); ok {
		for _, comment := range value.Slice().All() {
			have = append(have, comment.Str())
		}
	}
	if !slices.Equal(want, have) {
		t.Fatalf("comments: %q in OTLP, %q in pprof", have, want)
	}
}

// sameOrder: the scope says which of pprof's columns each Profile was, and which of them is shown.
func sameOrder(t testing.TB, p *profile.Profile, all pprofile.Profiles) {
	t.Helper()
	scope := all.ResourceProfiles().At(0).ScopeProfiles().At(0)
	said := scope.Scope().Attributes()
	order, ok := said.Get("pprof.scope.sample_type_order")
	if !ok || order.Slice().Len() != len(p.SampleType) {
		t.Fatalf("no order of %d sample types: %v", len(p.SampleType), said.AsRaw())
	}
	for i, one := range scope.Profiles().All() {
		was := p.SampleType[order.Slice().At(i).Int()]
		if have := typeText(all.Dictionary(), one.SampleType()); have != was.Type+"/"+was.Unit {
			t.Fatalf("Profile %d is %s, its column %s", i, have, was.Type)
		}
	}
	shown := ""
	if value, ok := said.Get("pprof.scope.default_sample_type"); ok {
		shown = value.Str()
	}
	if shown != p.DefaultSampleType {
		t.Fatalf("default sample type %q in OTLP, %q in pprof", shown, p.DefaultSampleType)
	}
}

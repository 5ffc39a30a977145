// SPDX-License-Identifier: MIT OR Apache-2.0

package onstackhttp

import (
	"bytes"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"github.com/onstack-profiler/onstack/bindings/go/internal/pprofcheck"
)

// labelled is a small profile whose sample has these labels.
func labelled(f *testing.F, keys ...string) []byte {
	labels := map[string][]string{}
	for _, key := range keys {
		labels[key] = []string{"value of " + key}
	}
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}},
		Sample:     []*profile.Sample{{Value: []int64{1}, Label: labels}},
	}
	var out bytes.Buffer
	if err := p.WriteUncompressed(&out); err != nil {
		f.Fatal(err)
	}
	return out.Bytes()
}

// readForm is the server's side of formOf.
func readForm(t *testing.T, item *pushProfile) []byte {
	_, parameters, err := mime.ParseMediaType(item.header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	part, err := multipart.NewReader(bytes.NewReader(item.body), parameters["boundary"]).NextPart()
	if err != nil || part.FormName() != "profile" {
		t.Fatalf("%v %v", part, err)
	}
	content, err := io.ReadAll(part)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// Profiles have labels that are anybody's: whatever is sent can be read, with labels that the server takes.
func FuzzPushProfile(f *testing.F) {
	f.Add(labelled(f, "env"))
	f.Add(labelled(f, "local root span", "local-root-span", "local_root_span", "9lives", "ü"))
	f.Add(labelled(f))
	f.Fuzz(func(t *testing.T, data []byte) {
		item, err := newPushProfile(data)
		if item == nil || err != nil {
			return
		}
		sent := readForm(t, item)
		if most := len(sent) + mostFormBytes; len(item.body) > most || item.held() > most*5/4 {
			t.Fatalf("%d bytes of form, in %d of memory, for a profile of %d", len(item.body), item.held(), len(sent))
		}
		p, err := profile.ParseData(sent)
		if err != nil || len(p.Sample) == 0 {
			t.Fatalf("%v of %q", err, sent)
		}
		if rules := pprofcheck.Check(sent); rules != nil && pprofcheck.Check(data) == nil {
			t.Fatalf("servers refuse what was made of a profile that they take: %v", rules)
		}
		for _, sample := range p.Sample {
			for key := range sample.Label {
				if !labelOfPush.MatchString(key) {
					t.Fatalf("label %q", key)
				}
			}
		}
	})
}

// No value is lost where keys become the same, and once is enough.
func FuzzCleanLabels(f *testing.F) {
	f.Add("a-b", "a.b", "a_b", "a_b_")
	f.Add("", "_", "9", "_9")
	f.Add("\xff", "ü", "\x00", "__")
	f.Fuzz(func(t *testing.T, one, two, three, four string) {
		labels := map[string][]string{}
		for _, key := range []string{one, two, three, four} {
			labels[key] = []string{"value of " + key}
		}
		want := len(labels)
		p := &profile.Profile{Sample: []*profile.Sample{{Label: labels}}}
		cleanLabels(p)
		values := map[string]bool{}
		for key, value := range p.Sample[0].Label {
			if !labelOfPush.MatchString(key) {
				t.Fatalf("label %q", key)
			}
			values[value[0]] = true
		}
		if len(values) != want || cleanLabels(p) {
			t.Fatalf("%d values of %d: %v", len(values), want, p.Sample[0].Label)
		}
	})
}

// Labels of the options are refused with a text, or the server reads them as they were.
func FuzzLabelsText(f *testing.F) {
	f.Add("env", "staging", "version", "1.2")
	f.Add("git-ref", "x", "", "")
	f.Add("a", "b,c=d}", "__name__", "\n")
	f.Add("a", "b=c", "service_name", "\xff")
	f.Fuzz(func(t *testing.T, name, value, otherName, otherValue string) {
		labels := map[string]string{name: value, otherName: otherValue}
		text, err := labelsText(labels)
		if err != nil {
			if len(err.Error()) < len("onstack: PushOptions.Labels: ") {
				t.Fatalf("refused with %q", err)
			}
			return
		}
		read := map[string]string{}
		for _, pair := range strings.Split(text, ",") {
			name, value, _ := strings.Cut(pair, "=")
			if !labelOfPush.MatchString(name) || slices.Contains(serversLabels, name) {
				t.Fatalf("label %q", name)
			}
			read[name] = value
		}
		if !maps.Equal(read, labels) || !nameOfPush.MatchString("s{"+text+"}") {
			t.Fatalf("%q was read from %q, of %q", read, text, labels)
		}
	})
}

// What a server says is waited for, but never for more than an hour.
func FuzzRetryAfter(f *testing.F) {
	for _, text := range []string{"", "3", "-3", "1.5", "99999999999999999999", "Wed, 21 Oct 2026 07:28:00 GMT",
		"Wednesday, 21-Oct-26 07:28:00 GMT", "Wed Oct 21 07:28:00 2026", "Mon, 01 Jan 0001 00:00:00 GMT"} {
		f.Add(text, int64(1792567680))
	}
	f.Add("Fri, 31 Dec 9999 23:59:59 GMT", int64(-1<<63))
	f.Fuzz(func(t *testing.T, text string, now int64) {
		if after := retryAfter(text, time.Unix(now, 0)); after < 0 || after > mostRetryAfter {
			t.Fatalf("%q: %v", text, after)
		}
	})
}

// An answer of any content is read to its end, or to where it is damaged.
func FuzzPushOTLPAnswer(f *testing.F) {
	f.Add(statusOf("no room", 2))
	f.Add(statusOf("no room", 0))
	f.Add([]byte("\x0d1234\x091234567812\x00"))
	f.Fuzz(func(t *testing.T, answer []byte) {
		response := &http.Response{Header: http.Header{"Content-Type": {otlpContentType}}}
		refusedByOTLP(response, answer)
		if words := wordsOfOTLP(response, answer); len(words) > len(answer) {
			t.Errorf("%d bytes of %d", len(words), len(answer))
		}
		size := 0
		for field := range protoFields(answer) {
			size += len(field.body) + 2
		}
		if size > len(answer)+1 {
			t.Errorf("fields of %d bytes in %d", size, len(answer))
		}
	})
}

// SPDX-License-Identifier: MIT OR Apache-2.0

package onstackhttp

import (
	"bytes"
	"maps"
	"mime/multipart"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/pprof/profile"
)

// ingestProtocol is Pyroscope's.
var ingestProtocol = pushProtocol{
	endpoint: "/ingest",
	example:  "http://localhost:4040",
	prepare:  prepareIngest,
	take: func(_ *pushTarget, source pushSource) (*pushProfile, error) {
		var gzipped bytes.Buffer
		if _, err := source.TakeTo(&gzipped); err != nil {
			return nil, err
		}
		return newPushProfile(gzipped.Bytes())
	},
	address: ingestAddress,
	refused: func(*http.Response, []byte) string { return "" },
	words:   func(_ *http.Response, answer []byte) string { return string(answer) },
	again: func(status int, words string) bool {
		return status >= 500 || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout ||
			status == http.StatusUnprocessableEntity && passing.MatchString(words)
	},
}

// Pyroscope answers 422 also when it is only busy: when a part of it cannot be reached, and, in versions before 2026, over
// its rate limit (grafana/pyroscope-go#63). The reason stands in the text then.
var passing = regexp.MustCompile(`failed (resource_exhausted|unavailable|deadline_exceeded|canceled|aborted)\b`)

func prepareIngest(t *pushTarget, o *PushOptions) error {
	if o.Service == "" || strings.ContainsFunc(o.Service, func(r rune) bool { return !isServiceRune(r) }) {
		return badPushOption("Service", `%q: give a name of letters, digits, and any of "_-./"`, o.Service)
	}
	labels, err := labelsText(o.Labels)
	t.name = o.Service + "{" + labels + "}"
	return err
}

// ingestAddress has the rest in its query. There is no "format": with format=pprof the server takes the whole body for the
// profile, also where it is a form (readInputRawDataFromRequest of its ingest handler, 2022 to 2026).
func ingestAddress(t *pushTarget, item *pushProfile) string {
	address := t.url
	query := address.Query()
	query.Set("name", t.name)
	query.Set("from", strconv.FormatInt(item.from.Unix(), 10))
	query.Set("until", strconv.FormatInt(item.until.Unix(), 10))
	query.Set("spyName", "onstack")
	address.RawQuery = query.Encode()
	return address.String()
}

func isServiceRune(r rune) bool {
	return isLetter(r) || '0' <= r && r <= '9' || strings.ContainsRune("_-./", r)
}

// The server sets these itself: a second one makes it refuse the profile, or throw it away in silence.
var serversLabels = []string{"service_name", "pyroscope_spy", "profile_id"}

func labelsText(labels map[string]string) (string, error) {
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		value := labels[name]
		if !isLabelName(name) {
			return "", badPushOption("Labels", "name %q: give letters, digits and underscores, no digit first; %q would do", name,
				labelName(name))
		}
		if slices.Contains(serversLabels, name) || strings.HasPrefix(name, "__") {
			return "", badPushOption("Labels", "name %q: the server uses it itself: give another", name)
		}
		// The endpoint knows no quotes and no escapes.
		if strings.ContainsAny(value, ",}") || strings.ContainsFunc(value, unicode.IsControl) || !utf8.ValidString(value) {
			return "", badPushOption("Labels", "%s=%q: give a value without comma, closing brace and control characters", name, value)
		}
		pairs = append(pairs, name+"="+value)
	}
	return strings.Join(pairs, ","), nil
}

// mostFormBytes is more than the form adds to a profile.
const mostFormBytes = 512

// newPushProfile is nil for a profile without samples.
func newPushProfile(gzipped []byte) (*pushProfile, error) {
	parsed, err := profile.ParseData(gzipped)
	if err != nil || len(parsed.Sample) == 0 {
		return nil, err
	}
	if cleanLabels(parsed) {
		var cleaned bytes.Buffer
		if err := parsed.Write(&cleaned); err != nil {
			return nil, err
		}
		gzipped = cleaned.Bytes()
	}
	from := time.Unix(0, parsed.TimeNanos)
	body, contentType, err := formOf(gzipped)
	if err != nil {
		return nil, err
	}
	header := http.Header{"Content-Type": {contentType}} // with the form's boundary
	return &pushProfile{body: body, header: header, from: from, until: from.Add(time.Duration(parsed.DurationNanos))}, nil
}

// formOf makes the body as Pyroscope's own libraries send it.
func formOf(gzipped []byte) (form []byte, contentType string, err error) {
	var out bytes.Buffer
	out.Grow(len(gzipped) + mostFormBytes) // a buffer that grows by itself may hold twice as much
	writer := multipart.NewWriter(&out)
	part, err := writer.CreateFormFile("profile", "profile.pprof")
	if err != nil {
		return nil, "", err
	}
	if _, err := part.Write(gzipped); err != nil {
		return nil, "", err
	}
	if err := writer.Close(); err != nil {
		return nil, "", err
	}
	return out.Bytes(), writer.FormDataContentType(), nil
}

// cleanLabels renames the labels of samples that Pyroscope would not take, and says whether there were any: for one key
// of pprof.Do with a hyphen or a space it refuses the whole profile (grafana/pyroscope#3359, grafana/pyroscope-go#183).
func cleanLabels(p *profile.Profile) (changed bool) {
	for _, sample := range p.Sample {
		var bad []string
		for key := range sample.Label {
			if !isLabelName(key) {
				bad = append(bad, key)
			}
		}
		slices.Sort(bad) // the same names each time, also where two keys become the same
		for _, key := range bad {
			name := labelName(key)
			for sample.Label[name] != nil {
				name += "_"
			}
			sample.Label[name] = sample.Label[key]
			delete(sample.Label, key)
		}
		changed = changed || len(bad) > 0
	}
	return changed
}

func isLabelName(name string) bool { return name != "" && name == labelName(name) }

// labelName is the nearest name of letters, digits and underscores that does not begin with a digit.
func labelName(key string) string {
	name := strings.Map(func(r rune) rune {
		if r == '_' || '0' <= r && r <= '9' || isLetter(r) {
			return r
		}
		return '_'
	}, key)
	if name == "" || '0' <= name[0] && name[0] <= '9' {
		return "_" + name
	}
	return name
}

func isLetter(r rune) bool { return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' }

// SPDX-License-Identifier: MIT OR Apache-2.0

package onstackhttp

import (
	"bytes"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
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

// SPDX-License-Identifier: MIT OR Apache-2.0

package onstackhttp

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// pushTarget is where profiles go, and under which name.
type pushTarget struct {
	url    url.URL
	name   string // "service{label=value,...}", as the endpoint wants it
	header http.Header
}

// String leaves out what may be secret: user, password, query.
func (t *pushTarget) String() string { return t.url.Scheme + "://" + t.url.Host + t.url.Path }

// address is the URL for one profile. There is no "format": with format=pprof the server takes the whole body for the
// profile, also where it is a form (readInputRawDataFromRequest of its ingest handler, 2022 to 2026).
func (t *pushTarget) address(item *pushProfile) string {
	address := t.url
	query := address.Query()
	query.Set("name", t.name)
	query.Set("from", strconv.FormatInt(item.from.Unix(), 10))
	query.Set("until", strconv.FormatInt(item.until.Unix(), 10))
	query.Set("spyName", "onstack")
	address.RawQuery = query.Encode()
	return address.String()
}

func newPushTarget(o *PushOptions) (*pushTarget, error) {
	address, err := ingestURL(o.URL)
	if err != nil {
		return nil, err
	}
	if o.Service == "" || strings.ContainsFunc(o.Service, func(r rune) bool { return !isServiceRune(r) }) {
		return nil, badPushOption("Service", `%q: give a name of letters, digits, and any of "_-./"`, o.Service)
	}
	labels, err := labelsText(o.Labels)
	if err != nil {
		return nil, err
	}
	header, err := checkedHeader(o.Header)
	if err != nil {
		return nil, err
	}
	return &pushTarget{url: *address, name: o.Service + "{" + labels + "}", header: header}, nil
}

func ingestURL(text string) (*url.URL, error) {
	// Neither the text nor the parser's error is repeated: there may be a password in it.
	address, err := url.Parse(text)
	if err != nil || address.Host == "" || address.Scheme != "http" && address.Scheme != "https" {
		return nil, badPushOption("URL", `give the server's address, as in "http://localhost:4040"`)
	}
	if !strings.HasSuffix(address.Path, "/ingest") {
		if address.Path == "" {
			address.Path = "/" // JoinPath leaves the slash out otherwise
		}
		address = address.JoinPath("ingest")
	}
	address.Fragment, address.RawFragment = "", ""
	return address, nil
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

// Set for each request by the pusher, or by net/http.
var pushersHeaders = []string{"Content-Type", "Content-Length", "Content-Encoding", "Transfer-Encoding", "Host"}

// checkedHeader finds now what would otherwise make every request fail. It does not repeat values: they are secrets.
func checkedHeader(header http.Header) (http.Header, error) {
	for name, values := range header {
		if name == "" || strings.ContainsFunc(name, func(r rune) bool { return !isTokenRune(r) }) {
			return nil, badPushOption("Header", "name %q is none: give letters, digits and hyphens", name)
		}
		if canonical := http.CanonicalHeaderKey(name); slices.Contains(pushersHeaders, canonical) {
			return nil, badPushOption("Header", "%s is not yours to set: leave it out", canonical)
		}
		for _, value := range values {
			if strings.ContainsFunc(value, func(r rune) bool { return r != '\t' && r < ' ' || r == 0x7f }) {
				return nil, badPushOption("Header", "the value of %s has a control character: is there a line end behind a token?", name)
			}
		}
	}
	checked := http.Header{"User-Agent": {"onstack"}}
	for name, values := range header {
		checked[http.CanonicalHeaderKey(name)] = slices.Clone(values)
	}
	return checked, nil
}

// isTokenRune is RFC 9110's tchar.
func isTokenRune(r rune) bool {
	return isLetter(r) || '0' <= r && r <= '9' || strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}

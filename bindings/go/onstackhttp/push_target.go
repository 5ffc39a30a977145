// SPDX-License-Identifier: MIT OR Apache-2.0

package onstackhttp

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// pushTarget is where profiles go, and under which name.
type pushTarget struct {
	*pushProtocol
	url      url.URL
	header   http.Header
	name     string            // of Pyroscope: "service{label=value,...}"
	resource map[string]string // of OpenTelemetry
}

// String leaves out what may be secret: user, password, query.
func (t *pushTarget) String() string { return t.url.Scheme + "://" + t.url.Host + t.url.Path }

func newPushTarget(o *PushOptions) (*pushTarget, error) {
	if o.Protocol < 0 || int(o.Protocol) >= len(pushProtocols) {
		return nil, badPushOption("Protocol", "%d: give PushIngest or PushOTLP", o.Protocol)
	}
	target := &pushTarget{pushProtocol: pushProtocols[o.Protocol]}
	if err := target.setURL(o.URL); err != nil {
		return nil, err
	}
	if err := target.prepare(target, o); err != nil {
		return nil, err
	}
	header, err := checkedHeader(o.Header, target.headers)
	target.header = header
	return target, err
}

func (t *pushTarget) setURL(text string) error {
	// Neither the text nor the parser's error is repeated: there may be a password in it.
	address, err := url.Parse(text)
	if err != nil || address.Host == "" || address.Scheme != "http" && address.Scheme != "https" {
		return badPushOption("URL", "give the server's address, as in %q", t.example)
	}
	if !strings.HasSuffix(address.Path, t.endpoint) {
		if address.Path == "" {
			address.Path = "/" // JoinPath leaves the slash out otherwise
		}
		address = address.JoinPath(t.endpoint)
	}
	address.Fragment, address.RawFragment = "", ""
	t.url = *address
	return nil
}

// Set for each request by the pusher, or by net/http.
var pushersHeaders = []string{"Content-Type", "Content-Length", "Content-Encoding", "Transfer-Encoding", "Host"}

// checkedHeader finds now what would otherwise make every request fail. It does not repeat values: they are secrets.
func checkedHeader(header, protocols http.Header) (http.Header, error) {
	for name, values := range header {
		if name == "" || strings.ContainsFunc(name, func(r rune) bool { return !isTokenRune(r) }) {
			return nil, badPushOption("Header", "name %q is none: give letters, digits and hyphens", name)
		}
		if canonical := http.CanonicalHeaderKey(name); slices.Contains(pushersHeaders, canonical) || protocols[canonical] != nil {
			return nil, badPushOption("Header", "%s is not yours to set: leave it out", canonical)
		}
		for _, value := range values {
			if strings.ContainsFunc(value, func(r rune) bool { return r != '\t' && r < ' ' || r == 0x7f }) {
				return nil, badPushOption("Header", "the value of %s has a control character: is there a line end behind a token?", name)
			}
		}
	}
	checked := http.Header{"User-Agent": {"onstack"}}
	maps.Copy(checked, protocols)
	for name, values := range header {
		checked[http.CanonicalHeaderKey(name)] = slices.Clone(values)
	}
	return checked, nil
}

// isTokenRune is RFC 9110's tchar.
func isTokenRune(r rune) bool {
	return isLetter(r) || '0' <= r && r <= '9' || strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}

// PushProtocol is what the server understands.
type PushProtocol int

const (
	PushIngest PushProtocol = iota // Pyroscope's ingest requests
	PushOTLP                       // OpenTelemetry's over HTTP, of which the profiles signal is experimental
)

// pushProtocol is what differs between servers.
type pushProtocol struct {
	endpoint string // where the URL ends
	example  string // of a URL
	headers  http.Header

	// prepare reads Service and Labels into the target.
	prepare func(*pushTarget, *PushOptions) error
	// take makes a profile ready to be sent; nil for one without samples.
	take func(*pushTarget, pushSource) (*pushProfile, error)
	// address is the URL for one profile.
	address func(*pushTarget, *pushProfile) string
	// refused is what an answer of success says all the same; "": nothing.
	refused func(*http.Response, []byte) string
	// words of an answer, for people.
	words func(*http.Response, []byte) string
	// again says whether another attempt may help, after a status of 300 and more.
	again func(status int, words string) bool
}

// pushProtocols by their number.
var pushProtocols = []*pushProtocol{PushIngest: &ingestProtocol, PushOTLP: &otlpProtocol}

// pushProfile is a profile as it will be sent.
type pushProfile struct {
	body        []byte
	header      http.Header // of its body
	from, until time.Time
}

// held is how many bytes are in memory, used or not.
func (p *pushProfile) held() int { return cap(p.body) }

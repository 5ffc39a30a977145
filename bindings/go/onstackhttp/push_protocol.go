// SPDX-License-Identifier: MIT OR Apache-2.0

package onstackhttp

import (
	"net/http"
	"time"
)

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

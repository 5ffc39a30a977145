// SPDX-License-Identifier: MIT OR Apache-2.0

package onstackhttp

import (
	"bytes"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/pprof/profile"
)

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

// SPDX-License-Identifier: MIT OR Apache-2.0

package onstackhttp

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
)

// A query of any content is refused with a text, or asks for a time within bounds.
func FuzzQuery(f *testing.F) {
	for _, query := range []string{"seconds=5", "seconds=1e-300&hz=99&clock=wall", "seconds=NaN", "hz=0x10", "clock=", "%zz", "a;b",
		"seconds=+Inf", "seconds=300", "seconds=300.0000001", "hz=1000", "hz=1001"} {
		f.Add(query)
	}
	h := Handler().(*handler)
	f.Fuzz(func(t *testing.T, query string) {
		request := httptest.NewRequest(http.MethodGet, "/", nil)
		request.URL = &url.URL{Path: "/", RawQuery: query}
		asked, err := h.parse(request)
		if err != nil {
			if err.Error() == "" {
				t.Fatal("refused without a word")
			}
			return
		}
		if asked.duration < 0 || asked.duration > defaultMaxDuration || len(asked.options) > 2 {
			t.Fatalf("%v and %d options", asked.duration, len(asked.options))
		}
	})
}

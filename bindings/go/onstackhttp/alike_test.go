// SPDX-License-Identifier: MIT OR Apache-2.0

package onstackhttp

import (
	_ "embed"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	onstack "github.com/onstack-profiler/onstack/bindings/go"
)

//go:embed testdata/alike.txt
var alike string

// linesAlike calls `each` with the fields of each line of that kind.
func linesAlike(t *testing.T, kind string, fields int, each func(fields []string)) {
	t.Helper()
	found := false
	for line := range strings.Lines(alike) {
		if words := strings.Split(strings.TrimSuffix(line, "\n"), "\t"); words[0] == kind && len(words) == fields+1 {
			found = true
			each(words[1:])
		}
	}
	if !found {
		t.Errorf("testdata/alike.txt has no %s with %d fields", kind, fields)
	}
}

func TestAlikeDefaults(t *testing.T) {
	handler, push := HandlerOptions{}, PushOptions{}
	if err := handler.complete(); err != nil {
		t.Fatal(err)
	}
	if err := push.complete(); err != nil {
		t.Fatal(err)
	}
	seconds := func(d time.Duration) string { return fmt.Sprint(d.Seconds()) }
	have := map[string]string{
		"seconds":                      seconds(defaultDuration),
		"hz":                           fmt.Sprint(onstack.DefaultRate),
		"HandlerOptions.MaxDuration":   seconds(handler.MaxDuration),
		"HandlerOptions.MaxRate":       fmt.Sprint(handler.MaxRate),
		"HandlerOptions.MaxConcurrent": fmt.Sprint(handler.MaxConcurrent),
		"PushOptions.Interval":         seconds(push.Interval),
		"PushOptions.Timeout":          seconds(push.Timeout),
		"PushOptions.FlushTimeout":     seconds(push.FlushTimeout),
		"PushOptions.MaxWaiting":       fmt.Sprint(push.MaxWaiting),
		"PushOptions.MaxWaitingBytes":  fmt.Sprint(push.MaxWaitingBytes),
		"first pause":                  seconds(leastBackoff),
		"longest pause":                seconds(mostBackoff),
	}
	linesAlike(t, "default", 2, func(fields []string) {
		if have[fields[0]] != fields[1] {
			t.Errorf("%s: %q, want %q", fields[0], have[fields[0]], fields[1])
		}
		delete(have, fields[0])
	})
	if len(have) > 0 {
		t.Errorf("not in testdata/alike.txt: %v", have)
	}
}

func TestAlikeQueries(t *testing.T) {
	linesAlike(t, "ask", 3, func(fields []string) {
		answer := httptest.NewRecorder()
		Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/"+fields[0], nil))
		if fmt.Sprint(answer.Code) != fields[1] || answer.Body.String() != fields[2]+"\n" {
			t.Errorf("%s: %d %s", fields[0], answer.Code, answer.Body)
		}
	})
}

func TestAlikeAnswers(t *testing.T) {
	for kind, protocol := range map[string]PushProtocol{"answer": PushIngest, "otlp answer": PushOTLP} {
		p, err := NewPusher(PushOptions{Protocol: protocol, URL: "http://localhost:1", Service: "test"})
		if err != nil {
			t.Fatal(err)
		}
		begin := "onstack: push to http://localhost:1" + p.target.endpoint + ": "
		linesAlike(t, kind, 3, func(fields []string) {
			status, _ := strconv.Atoi(fields[0])
			tried := p.check(&http.Response{StatusCode: status, Status: fields[0] + " " + http.StatusText(status)}, []byte(fields[1]))
			if tried.err == nil || tried.again != (fields[2] == "retry") || !strings.Contains(tried.err.Error(), ": "+fields[1]) ||
				!strings.HasPrefix(tried.err.Error(), begin+fields[0]+" ") {
				t.Errorf("%s %q: %+v", kind, fields, tried)
			}
		})
	}
	linesAlike(t, "after", 2, func(fields []string) {
		if after := retryAfter(fields[0], time.Now()); fmt.Sprint(after.Seconds()) != fields[1] {
			t.Errorf("%q: %v", fields, after)
		}
	})
}

// SPDX-License-Identifier: MIT OR Apache-2.0

package otlp

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"github.com/grafana/pyroscope-go/upstream"
	"github.com/grafana/pyroscope-go/upstream/remote"

	onstack "github.com/onstack-profiler/onstack/bindings/go"
	"github.com/onstack-profiler/onstack/bindings/go/onstackhttp"
)

// upload is a request as Pyroscope's server would read it.
type upload struct {
	method, path string
	query        url.Values
	part, file   string
	profile      []byte
}

// ingestServer hands on what it is sent.
func ingestServer(t *testing.T) (string, <-chan upload) {
	t.Helper()
	uploads := make(chan upload, 100)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		u := upload{method: r.Method, path: r.URL.Path, query: r.URL.Query()}
		form, err := r.MultipartReader()
		if err != nil {
			t.Error(err)
			return
		}
		part, err := form.NextPart()
		if err != nil {
			t.Error(err)
			return
		}
		u.part, u.file = part.FormName(), part.FileName()
		u.profile, _ = io.ReadAll(part)
		if next, err := form.NextPart(); err != io.EOF {
			t.Errorf("a second part: %v %v", next, err)
		}
		uploads <- u
	}))
	t.Cleanup(server.Close)
	return server.URL, uploads
}

func received(t *testing.T, uploads <-chan upload) upload {
	t.Helper()
	select {
	case u := <-uploads:
		return u
	case <-time.After(patience):
		t.Fatal("nothing was sent")
		return upload{}
	}
}

// quiet is pyroscope-go's logger.
type quiet struct{ t *testing.T }

func (quiet) Infof(string, ...any)                {}
func (quiet) Debugf(string, ...any)               {}
func (q quiet) Errorf(format string, args ...any) { q.t.Errorf(format, args...) }

// What Pyroscope's own client sends of the same profile is what our pusher sends: the same form at the same place, and in the
// query the same keys with the same meaning.
func TestPyroscopesClientSendsTheSame(t *testing.T) {
	address, uploads := ingestServer(t)
	ctx, cancel := context.WithCancel(context.Background())
	pusher, err := onstackhttp.NewPusher(onstackhttp.PushOptions{
		URL:     address,
		Service: "shop",
		Labels:  map[string]string{"env": "test", "zone": "a"},
		Profile: []onstack.Option{onstack.WithRate(500)},
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- pusher.Run(ctx) }()
	burn(300 * time.Millisecond)
	cancel()
	<-ended
	ours := received(t, uploads)
	parsed, err := profile.ParseData(ours.profile)
	if err != nil || len(parsed.Sample) == 0 {
		t.Fatalf("the profile that was sent: %v", err)
	}

	client, err := remote.NewRemote(remote.Config{Address: address, Threads: 1, Timeout: patience, Logger: quiet{t}})
	if err != nil {
		t.Fatal(err)
	}
	client.Start()
	defer client.Stop()
	began := time.Unix(0, parsed.TimeNanos)
	client.Upload(&upstream.UploadJob{
		Name:      "shop{env=test,zone=a}",
		StartTime: began,
		EndTime:   began.Add(time.Duration(parsed.DurationNanos)),
		SpyName:   "onstack",
		Profile:   ours.profile,
	})
	client.Flush()
	theirs := received(t, uploads)

	if ours.method != theirs.method || ours.path != theirs.path || ours.part != theirs.part || ours.file != theirs.file {
		t.Errorf("%s %s %s %s, and its client %s %s %s %s", ours.method, ours.path, ours.part, ours.file, theirs.method, theirs.path,
			theirs.part, theirs.file)
	}
	if !slices.Equal(ours.profile, theirs.profile) {
		t.Error("the profiles differ")
	}
	for key := range ours.query {
		if !theirs.query.Has(key) {
			t.Errorf("its client knows no %s", key)
		}
	}
	for _, key := range []string{"name", "spyName"} {
		if ours.query.Get(key) != theirs.query.Get(key) {
			t.Errorf("%s is %q, and of its client %q", key, ours.query.Get(key), theirs.query.Get(key))
		}
	}
	// Whole seconds or nanoseconds: the server tells them apart by their size.
	for _, key := range []string{"from", "until"} {
		seconds, err := strconv.ParseInt(ours.query.Get(key), 10, 64)
		nanos, _ := strconv.ParseInt(theirs.query.Get(key), 10, 64)
		if err != nil || seconds != nanos/1e9 {
			t.Errorf("%s is %q, and of its client %q", key, ours.query.Get(key), theirs.query.Get(key))
		}
	}
}

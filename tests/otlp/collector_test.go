// SPDX-License-Identifier: MIT OR Apache-2.0

package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/yamlprovider"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/otlphttpexporter"
	"go.opentelemetry.io/collector/featuregate"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.opentelemetry.io/collector/pdata/pprofile/pprofileotlp"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry"

	"github.com/onstack-profiler/onstack/bindings/go/onstackhttp"
)

// patience is for what happens at some time on a busy machine.
const patience = time.Minute

// backend is what stands behind the collector: it keeps what comes.
type backend struct {
	*httptest.Server
	t *testing.T

	mu   sync.Mutex
	away int // the status that it answers; 0: it takes profiles
	got  []pprofile.Profiles
}

func newBackend(t *testing.T) *backend {
	b := &backend{t: t}
	b.Server = httptest.NewServer(b)
	t.Cleanup(b.Close)
	return b
}

func (b *backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	request := pprofileotlp.NewExportRequest()
	if err == nil {
		err = request.UnmarshalProto(raw)
	}
	if err != nil {
		b.t.Errorf("the backend cannot read what the collector sends: %v", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	w.Header().Set("Content-Type", "application/x-protobuf")
	if b.away != 0 {
		w.WriteHeader(b.away)
		return
	}
	b.got = append(b.got, request.Profiles())
}

func (b *backend) set(away int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.away = away
}

func (b *backend) profiles() []pprofile.Profiles {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]pprofile.Profiles(nil), b.got...)
}

// collector runs OpenTelemetry's collector between its OTLP receiver and its OTLP exporter, and gives the receiver's URL.
// `http` are more lines of the receiver's configuration.
func collector(t *testing.T, to string, http string) string {
	t.Helper()
	if err := featuregate.GlobalRegistry().Set("service.profilesSupport", true); err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	receivers, exporters := otlpreceiver.NewFactory(), otlphttpexporter.NewFactory()
	config := fmt.Sprintf(`yaml:
receivers:
  %[1]v:
    protocols:
      http:
        endpoint: %[2]s
%[5]s
exporters:
  %[3]v:
    profiles_endpoint: %[4]s/v1development/profiles
    compression: none
    sending_queue: {enabled: false}
    retry_on_failure: {enabled: false}
service:
  pipelines:
    profiles: {receivers: [%[1]v], exporters: [%[3]v]}
`, receivers.Type(), address, exporters.Type(), to, http)
	run, err := otelcol.NewCollector(otelcol.CollectorSettings{
		BuildInfo:               component.NewDefaultBuildInfo(),
		DisableGracefulShutdown: true,
		Factories: func() (otelcol.Factories, error) {
			return otelcol.Factories{
				Receivers: map[component.Type]receiver.Factory{receivers.Type(): receivers},
				// It says nothing of itself: what it could say brings in as much as all else.
				Telemetry: telemetry.NewFactory(func() component.Config { return &struct{}{} }),
				Exporters: map[component.Type]exporter.Factory{exporters.Type(): exporters},
			}, nil
		},
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
			URIs:              []string{config},
			ProviderFactories: []confmap.ProviderFactory{yamlprovider.NewFactory()},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- run.Run(context.Background())
		close(ended)
	}()
	t.Cleanup(func() {
		run.Shutdown()
		if err := <-ended; err != nil {
			t.Errorf("the collector: %v", err)
		}
	})
	eventually(t, "the collector does not start", func() bool {
		select {
		case err := <-ended:
			t.Fatalf("the collector: %v", err)
		default:
		}
		return run.GetState() == otelcol.StateRunning
	})
	return "http://" + address
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
	}
}

// TestThroughACollector: what comes out behind the collector is what pprof has.
func TestThroughACollector(t *testing.T) {
	behind := newBackend(t)
	url := collector(t, behind.URL, "")
	p := profiled(t)
	var raw, gzipped bytes.Buffer
	if err := onstackhttp.WriteOTLP(&raw, p, map[string]string{"service.name": "shop"}); err != nil {
		t.Fatal(err)
	}
	packer := gzip.NewWriter(&gzipped)
	packer.Write(raw.Bytes())
	packer.Close()
	request, err := http.NewRequest(http.MethodPost, url+"/v1development/profiles", &gzipped)
	if err != nil {
		t.Fatal(err)
	}
	request.Header = http.Header{"Content-Type": {"application/x-protobuf"}, "Content-Encoding": {"gzip"}}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if answer, _ := io.ReadAll(response.Body); response.StatusCode != 200 || len(answer) > 2 {
		t.Fatalf("the collector answers %s %q", response.Status, answer)
	}
	got := behind.profiles()
	if len(got) != 1 {
		t.Fatalf("%d messages came", len(got))
	}
	same(t, pprofOf(t, p), got[0])
	if name, _ := got[0].ResourceProfiles().At(0).Resource().Attributes().Get("service.name"); name.Str() != "shop" {
		t.Errorf("service.name is %v", name)
	}
	if scope := got[0].ResourceProfiles().At(0).ScopeProfiles().At(0).Scope(); scope.Name() != "onstack" ||
		!strings.HasPrefix(scope.Version(), "0.") {
		t.Errorf("the scope is %s %s", scope.Name(), scope.Version())
	}
}

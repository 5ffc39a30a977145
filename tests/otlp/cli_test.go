// SPDX-License-Identifier: MIT OR Apache-2.0

package otlp

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
	"go.opentelemetry.io/collector/pdata/pprofile"
)

// onstackCommand is the command, which run.sh builds.
func onstackCommand(t *testing.T, arguments ...string) []byte {
	t.Helper()
	path := os.Getenv("ONSTACK_CLI")
	if path == "" {
		t.Skip("ONSTACK_CLI names no program; tests/otlp/run.sh builds it")
	}
	command := exec.Command(path, arguments...)
	var said bytes.Buffer
	command.Stderr = &said
	out, err := command.Output()
	if err != nil {
		t.Fatalf("onstack %v: %v\n%s", arguments, err, &said)
	}
	return out
}

func written(t *testing.T, p *profile.Profile) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "profile.pb.gz")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := p.Write(file); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestConverted compares what Rust writes of profiles of several makers.
func TestConverted(t *testing.T) {
	ours := pprofOf(t, profiled(t))
	var heap bytes.Buffer
	runtime.GC()
	if err := pprof.Lookup("heap").WriteTo(&heap, 0); err != nil {
		t.Fatal(err)
	}
	gos, err := profile.ParseData(heap.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string]*profile.Profile{"ours": ours, "Go's heap": gos} {
		t.Run(name, func(t *testing.T) {
			all := decoded(t, onstackCommand(t, "convert", "--format", "otlp", written(t, p)))
			same(t, p, all)
			t.Logf("%d samples", all.SampleCount())
		})
	}
}

// TestPushedByCommand: a file goes through the collector, what a backend refuses for a while is tried again, and what the
// collector refuses for good is not.
func TestPushedByCommand(t *testing.T) {
	behind := newBackend(t)
	p := pprofOf(t, profiled(t))
	file := written(t, p)
	push := func(url string) []string {
		return []string{"push", "--protocol", "otlp", "--url", url, "--name", "a shop", "--label", "host.name=h, 1", file}
	}
	url := collector(t, behind.URL, "")
	onstackCommand(t, push(url)...)
	got := behind.profiles()
	if len(got) != 1 {
		t.Fatalf("%d messages came", len(got))
	}
	same(t, p, got[0])
	resource := got[0].ResourceProfiles().At(0).Resource().Attributes().AsRaw()
	if len(resource) != 2 || resource["service.name"] != "a shop" || resource["host.name"] != "h, 1" {
		t.Errorf("the resource is %v", resource)
	}
	behind.set(503)
	refused(t, "gave up after 2 tries", append(push(url), "--retries", "1")...)
	refused(t, "too large", push(collector(t, behind.URL, "        max_request_body_size: 100"))...)
}

// refused is a command that fails and says why.
func refused(t *testing.T, why string, arguments ...string) {
	t.Helper()
	said, err := exec.Command(os.Getenv("ONSTACK_CLI"), arguments...).CombinedOutput()
	if err == nil || !bytes.Contains(said, []byte(why)) {
		t.Errorf("onstack %v: %v\n%s", arguments, err, said)
	}
	t.Logf("%s", said)
}

// TestPushedByRust: a program's own profiles, while the backend is away at first.
func TestPushedByRust(t *testing.T) {
	program := os.Getenv("ONSTACK_PUSHING")
	if program == "" {
		t.Skip("ONSTACK_PUSHING names no program; tests/otlp/run.sh builds it")
	}
	behind := newBackend(t)
	behind.set(503)
	command := exec.Command(program, "otlp", collector(t, behind.URL, ""))
	var stats bytes.Buffer
	command.Stdout = &stats
	told, err := command.StderrPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(told)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "retry: onstack: push to ") || !strings.Contains(lines.Text(), ": 503 ") {
		t.Errorf("while the backend is away it says %q", lines.Text())
	}
	behind.set(0)
	for lines.Scan() {
		t.Log(lines.Text())
	}
	if err := command.Wait(); err != nil {
		t.Fatal(err)
	}
	worked := false
	for _, all := range behind.profiles() {
		checkTables(t, all.Dictionary())
		resource := all.ResourceProfiles().At(0).Resource().Attributes().AsRaw()
		if resource["service.name"] != "collatz" || resource["example"] != "push" {
			t.Errorf("the resource is %v", resource)
		}
		for _, function := range all.Dictionary().FunctionTable().All() {
			name := all.Dictionary().StringTable().At(int(function.NameStrindex()))
			worked = worked || strings.HasSuffix(name, "push::collatz")
		}
	}
	if came := len(behind.profiles()); !worked || !strings.Contains(stats.String(), fmt.Sprintf(" sent: %d,", came)) {
		t.Errorf("%d profiles came; the work is in them: %t; %s", came, worked, &stats)
	}
}

// TestRecorded: a program that knows nothing of OpenTelemetry, with lines and inlined functions out of its debug information.
func TestRecorded(t *testing.T) {
	directory := t.TempDir()
	source, program := filepath.Join(directory, "burn.c"), filepath.Join(directory, "burn")
	code := `static inline __attribute__((always_inline)) long inlined(volatile long *sum) {
  for (long i = 0; i < 300000000; i++) *sum += *sum ^ i;
  return *sum;
}
int main(void) { volatile long sum = 0; return inlined(&sum) == 1; }`
	if err := os.WriteFile(source, []byte(code), 0o600); err != nil {
		t.Fatal(err)
	}
	if said, err := exec.Command("cc", "-O2", "-g", "-o", program, source).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	raw := filepath.Join(directory, "profile.otlp")
	onstackCommand(t, "record", "-q", "--format", "otlp", "--resource", "service.name=burner", "-o", raw, "--", program)
	bytes, err := os.ReadFile(raw)
	if err != nil {
		t.Fatal(err)
	}
	all := decoded(t, bytes)
	dictionary := all.Dictionary()
	checkTables(t, dictionary)
	if name, _ := all.ResourceProfiles().At(0).Resource().Attributes().Get("service.name"); name.Str() != "burner" {
		t.Errorf("the service is %q", name.Str())
	}
	inlined := false
	for _, location := range dictionary.LocationTable().All() {
		names := functionsOf(dictionary, location)
		inlined = inlined || slices.Equal(names, []string{"inlined", "main"})
		kind, ok := attributes(t, dictionary, location).Get("profile.frame.type")
		if slices.Contains(names, "main") && (!ok || kind.Str() != "native") {
			t.Errorf("%v is of type %v", names, kind)
		}
	}
	if !inlined {
		t.Error("no location has a function that was inlined into main")
	}
}

func functionsOf(dictionary pprofile.ProfilesDictionary, location pprofile.Location) (names []string) {
	for _, line := range location.Lines().All() {
		names = append(names, dictionary.StringTable().At(int(dictionary.FunctionTable().At(int(line.FunctionIndex())).NameStrindex())))
	}
	return names
}

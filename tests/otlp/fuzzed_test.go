// SPDX-License-Identifier: MIT OR Apache-2.0

package otlp

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/onstack-profiler/onstack/bindings/go/onstackhttp"
)

// TestFuzzed converts the profiles of tests/fuzz/fuzz_pprof.c, which have samples, names and labels of any content.
func TestFuzzed(t *testing.T) {
	path := os.Getenv("ONSTACK_FUZZ_PROFILES")
	if path == "" {
		t.Skip("ONSTACK_FUZZ_PROFILES names no file; tests/otlp/run.sh makes one")
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	count, samples, linked := 0, 0, 0
	for in := bufio.NewReader(file); ; count++ {
		var head [8]uint64 // the profile's length, and sums that the fuzz suite compares
		if err := binary.Read(in, binary.LittleEndian, &head); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		raw := make([]byte, head[0])
		if _, err := io.ReadFull(in, raw); err != nil {
			t.Fatal(err)
		}
		p, err := profile.ParseUncompressed(raw)
		if err != nil {
			t.Fatal(err)
		}
		var converted bytes.Buffer
		if err := onstackhttp.WriteOTLP(&converted, bytes.NewReader(raw), nil); err != nil {
			t.Fatal(err)
		}
		all := decoded(t, converted.Bytes())
		same(t, p, all)
		samples += all.SampleCount()
		linked += all.Dictionary().LinkTable().Len() - 1
	}
	if count < 100 || samples == 0 || linked == 0 {
		t.Fatalf("%d profiles with %d samples and %d links are too few", count, samples, linked)
	}
	t.Logf("%d profiles with %d samples and %d links", count, samples, linked)
}

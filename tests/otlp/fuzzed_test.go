// SPDX-License-Identifier: MIT OR Apache-2.0

package otlp

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/google/pprof/profile"
)

// TestFuzzed compares what tests/fuzz/fuzz_otlp.c has written of samples, names, and labels of any content.
func TestFuzzed(t *testing.T) {
	path := os.Getenv("ONSTACK_FUZZ_PAIRS")
	if path == "" {
		t.Skip("ONSTACK_FUZZ_PAIRS names no file; tests/otlp/run.sh makes one")
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	count, samples, linked := 0, 0, 0
	for in := bufio.NewReader(file); ; count++ {
		var lengths [2]uint64
		if err := binary.Read(in, binary.LittleEndian, &lengths); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		raw := make([]byte, lengths[0]+lengths[1])
		if _, err := io.ReadFull(in, raw); err != nil {
			t.Fatal(err)
		}
		p, err := profile.ParseUncompressed(raw[:lengths[0]])
		if err != nil {
			t.Fatal(err)
		}
		all := decoded(t, raw[lengths[0]:])
		same(t, p, all)
		samples += all.SampleCount()
		linked += all.Dictionary().LinkTable().Len() - 1
	}
	if count < 100 || samples == 0 || linked == 0 {
		t.Fatalf("%d profiles with %d samples and %d links are too few", count, samples, linked)
	}
	t.Logf("%d profiles with %d samples and %d links", count, samples, linked)
}

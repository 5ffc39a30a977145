// SPDX-License-Identifier: MIT OR Apache-2.0

package nativelines

import (
	"bytes"
	"compress/zlib"
	"math/rand/v2"
	"testing"
)

func packed(t testing.TB, plain []byte, level int) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := zlib.NewWriterLevel(&out, level)
	if err != nil {
		t.Fatal(err)
	}
	w.Write(plain)
	w.Close()
	return out.Bytes()
}

// inflated unpacks in steps, as sections are filled, and keeps each second one.
func inflated(stream []byte, size uint64, step int) (whole []byte, err error) {
	f, err := newInflater(bytes.NewReader(stream), uint64(len(stream)), size)
	if err != nil {
		return nil, err
	}
	whole = make([]byte, size)
	for from, keep := uint64(0), true; from < size; from, keep = from+uint64(step), !keep {
		to := min(from+uint64(step), size)
		if !keep {
			continue
		}
		if err := f.unpack(whole, from, to); err != nil {
			return nil, err
		}
	}
	return whole, nil
}

// without is the text without what is not kept.
func without(plain []byte, step int) []byte {
	kept := bytes.Clone(plain)
	for from := step; from < len(kept); from += 2 * step {
		clear(kept[from:min(from+step, len(kept))])
	}
	return kept
}

func plainTexts() map[string][]byte {
	random := rand.New(rand.NewPCG(1, 2))
	noise, words, run := make([]byte, 200_000), []byte{}, bytes.Repeat([]byte("a"), 300_000)
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	for len(words) < 500_000 { // codes of all lengths, copies of all lengths and distances
		if word := 1 + random.IntN(300); random.IntN(2) == 0 && len(words) > word {
			at := random.IntN(len(words) - word)
			words = append(words, words[at:at+word]...)
		}
		words = append(words, byte(random.ExpFloat64()*9))
	}
	return map[string][]byte{"noise": noise, "words": words, "run": run, "short": []byte("short"), "one": {7}}
}

func TestInflatedIsWhatWasPacked(t *testing.T) {
	for name, plain := range plainTexts() {
		for _, level := range []int{zlib.NoCompression, zlib.BestSpeed, zlib.BestCompression, zlib.HuffmanOnly} {
			stream := packed(t, plain, level)
			for _, step := range []int{997, 50_000, len(plain)} {
				if got, err := inflated(stream, uint64(len(plain)), step); err != nil || !bytes.Equal(got, without(plain, step)) {
					t.Errorf("%s, level %d, in steps of %d: not the same, %v", name, level, step, err)
				}
			}
			if _, err := inflated(stream, uint64(len(plain))+1, len(plain)+1); err == nil {
				t.Errorf("%s, level %d: one more byte than there are", name, level)
			}
			if _, err := inflated(stream[:len(stream)/2], uint64(len(plain)), len(plain)); err == nil && len(plain) > 100 {
				t.Errorf("%s, level %d: all of half a stream", name, level)
			}
		}
	}
}

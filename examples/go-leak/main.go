// SPDX-License-Identifier: MIT OR Apache-2.0

// A Go service with a C library that leaks: requests for thumbnails, of which the library's cache keeps one in twenty for
// ever. After some seconds of requests it prints what Go's own heap profile says, and what the profile of both heaps says.
package main

/*
#include <stdlib.h>
#include <string.h>

static char *volatile thumbnail_cache;

__attribute__((noinline)) static char *thumbnail_scale(const char *image, size_t bytes) {
  char *scaled = malloc(bytes);
  if (scaled) memcpy(scaled, image, bytes);
  return scaled;
}

// Puts the thumbnail into the cache, which forgets the one that was there, but does not free it.
__attribute__((noinline)) static void cache_put(const char *image, size_t bytes) {
  thumbnail_cache = thumbnail_scale(image, bytes);
}

__attribute__((noinline)) static int thumbnail_make(const char *image, size_t bytes, int cached) {
  if (cached) {
    cache_put(image, bytes);
    return 1;
  }
  char *scaled = thumbnail_scale(image, bytes);
  int made = scaled != NULL;
  free(scaled);
  return made;
}
*/
import "C"

import (
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	_ "net/http/pprof"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	onstack "github.com/onstack-profiler/onstack/bindings/go"
	_ "github.com/onstack-profiler/onstack/bindings/go/nativeheap"
	"github.com/onstack-profiler/onstack/bindings/go/onstackhttp"
)

const thumbnailBytes = 48 << 10

var (
	image = make([]byte, thumbnailBytes)
	count atomic.Int64
)

func serveThumbnail(w http.ResponseWriter, _ *http.Request) {
	cached := C.int(0)
	if count.Add(1)%20 == 0 {
		cached = 1
	}
	if C.thumbnail_make((*C.char)(unsafe.Pointer(&image[0])), thumbnailBytes, cached) == 0 {
		http.Error(w, "no memory", http.StatusInternalServerError)
		return
	}
	fmt.Fprintln(w, "ok")
}

func fetch(url string) ([]byte, error) {
	response, err := http.Get(url)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, body)
	}
	return body, err
}

// show fetches a heap profile, keeps it as a file and prints its head by `go tool pprof`.
func show(title, url, file string, arguments ...string) error {
	body, err := fetch(url)
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, body, 0o600); err != nil {
		return err
	}
	arguments = append(append([]string{"tool", "pprof", "-symbolize=none", "-top", "-cum", "-nodecount=12"}, arguments...), file)
	out, err := exec.Command("go", arguments...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("go %s: %w\n%s", strings.Join(arguments, " "), err, out)
	}
	fmt.Printf("\n== %s (%s)\n%s", title, file, out)
	return nil
}

func run(out string, length time.Duration) error {
	heap, err := onstack.Start(onstack.WithClock(onstack.ClockHeap))
	if err != nil {
		return err
	}
	defer heap.Close()
	http.HandleFunc("/thumbnail", serveThumbnail)
	server := httptest.NewServer(onstackhttp.OverPprof(http.DefaultServeMux))
	defer server.Close()
	goAlone := httptest.NewServer(http.DefaultServeMux)
	defer goAlone.Close()
	for end := time.Now().Add(length); time.Now().Before(end); {
		if _, err := fetch(server.URL + "/thumbnail"); err != nil {
			return err
		}
	}
	leaked := count.Load() / 20 * thumbnailBytes
	fmt.Printf("%d requests; the C library has leaked %.1f MB in them\n", count.Load(), float64(leaked)/(1<<20))
	if err := show("what Go's own heap profile says", goAlone.URL+"/debug/pprof/heap?gc=1", filepath.Join(out, "go.pb.gz")); err != nil {
		return err
	}
	if err := show("what the profile of both heaps says", server.URL+"/debug/pprof/heap?gc=1", filepath.Join(out, "both.pb.gz")); err != nil {
		return err
	}
	table, err := fetch(server.URL + "/debug/pprof/memory")
	fmt.Printf("\n== what the process's memory is made of (/debug/pprof/memory)\n%s", table)
	return err
}

func main() {
	out := flag.String("out", ".", "directory of the two profiles")
	length := flag.Duration("length", 5*time.Second, "how long requests are made")
	flag.Parse()
	if err := run(*out, *length); err != nil {
		log.Fatal(err)
	}
}

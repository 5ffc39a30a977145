// SPDX-License-Identifier: MIT OR Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/google/pprof/profile"
)

var sink int

func search(turn int) {
	word := fmt.Sprintf(`(?i)\b(on|off)?stack%d\b|(\d{1,3}\.){3}\d{1,3}|[\w.+-]+@\w+\.\w{2,}`, turn)
	text := strings.Repeat(fmt.Sprintf("host 10.0.0.%d user%d@example.org OnStack%d offstack ", turn, turn, turn), 20)
	sink += len(regexp.MustCompile(word).FindAllStringIndex(text, -1))
}

// statusOf reads one of the sizes of /proc/self/status, in KiB.
func statusOf(name string) (value float64, err error) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, rest, _ := bytes.Cut(text, []byte("\n"+name+":"))
	_, err = fmt.Sscan(string(rest), &value)
	return value, err
}

// measureFinishedProfile is the time from the call that ends sampling to the finished pprof file in memory, with names and
// inlined functions, and the memory that this takes at its peak.
func measureFinishedProfile(p profiler, asked *options) error {
	var written bytes.Buffer
	if err := p.start(asked.hz, &written); err != nil {
		return err
	}
	end := cpuTime(clockProcessCPU) + asked.length()
	for turn := 0; cpuTime(clockProcessCPU) < end; turn++ {
		search(turn % 1000)
	}
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil { // the high-water mark begins anew
		return err
	}
	before, err := statusOf("VmRSS")
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := p.stop(); err != nil {
		return err
	}
	took := time.Since(begin)
	peak, err := statusOf("VmHWM")
	if err != nil {
		return err
	}
	parsed, err := profile.ParseData(written.Bytes())
	if err != nil {
		return err
	}
	if err := emit("finished", "ms", took.Seconds()*1000); err != nil {
		return err
	}
	if err := emit("peak", "KiB", max(0, peak-before)); err != nil {
		return err
	}
	return emit("stacks", "", float64(len(parsed.Sample)))
}

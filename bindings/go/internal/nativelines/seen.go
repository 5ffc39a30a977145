// SPDX-License-Identifier: MIT OR Apache-2.0

package nativelines

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"sync"
)

// A file of a library without a build id tells by nothing but its stamp that it is still the one that was mapped. The
// kernel's list of mappings has the inode alone, which a file keeps when it is written over.
type stamp struct {
	inode    uint64
	bytes    int64
	modified int64
}

// mostSeen files are remembered; of later ones it is not known that they were written over.
const mostSeen = 4096

type seenFile struct {
	path  string
	inode uint64
}

var seen = struct {
	sync.Mutex
	stamps map[seenFile]stamp
}{stamps: map[seenFile]stamp{}}

func stampOf(info os.FileInfo) stamp {
	return stamp{inode(info), info.Size(), info.ModTime().UnixNano()}
}

// firstStamp is the one under which the file was seen first, which is now if it never was.
func firstStamp(file seenFile, now stamp) stamp {
	seen.Lock()
	defer seen.Unlock()
	if first, known := seen.stamps[file]; known {
		return first
	}
	if len(seen.stamps) < mostSeen {
		seen.stamps[file] = now
	}
	return now
}

// Note remembers what the mapped files are like. Before the profile whose addresses Find is asked for.
func Note() {
	text, _ := ownMaps()
	noteMaps(bytes.NewReader(text))
}

func noteMaps(text io.Reader) {
	for lines := bufio.NewScanner(text); lines.Scan(); {
		m, executable, ok := parseMapping(lines.Text())
		if !ok || !executable {
			continue
		}
		if info, err := os.Stat(m.path); err == nil && inode(info) == m.inode {
			firstStamp(seenFile{m.path, m.inode}, stampOf(info))
		}
	}
}

// SPDX-License-Identifier: MIT OR Apache-2.0

package nativelines

import (
	"os"
	"syscall"
)

func inode(info os.FileInfo) uint64 {
	if status, ok := info.Sys().(*syscall.Stat_t); ok {
		return status.Ino
	}
	return 0
}

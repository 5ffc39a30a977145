// SPDX-License-Identifier: MIT OR Apache-2.0

package onstacktest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// check refuses what is there and no regular file, links too. A link planted after this look is replaced, not followed.
func check(path string) error {
	there, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // also where the directory is missing: it may come before there is a profile
	case err != nil:
		return fmt.Errorf("onstacktest: %w", err)
	case there.Mode()&fs.ModeSymlink != 0:
		return fmt.Errorf("onstacktest: %s is a symbolic link, which is not followed: give the name of a file", path)
	case there.IsDir():
		return fmt.Errorf("onstacktest: %w", &fs.PathError{Op: "write", Path: path, Err: syscall.EISDIR})
	case !there.Mode().IsRegular():
		return fmt.Errorf("onstacktest: %s is not a regular file: give the name of one", path)
	}
	return nil
}

// replace puts a file of mode 0600 with what `fill` writes in the place of what is there, or leaves that as it is.
func replace(path string, fill func(io.Writer) error) error {
	if err := check(path); err != nil {
		return err
	}
	// In the same directory, so that the rename stays in one file system; it makes a file that was not there (O_EXCL),
	// which no link can lead elsewhere.
	file, err := os.CreateTemp(filepath.Dir(path), ".onstack-*.tmp")
	if err != nil {
		return fmt.Errorf("onstacktest: %w", err)
	}
	_ = file.Chmod(0o600) // a umask takes bits away; some file systems have none to give
	// Some file systems (NFS, quotas) tell a write's failure only at the end; and a crash must not leave an empty file.
	err = errors.Join(fill(file), file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("onstacktest: %s: %w", path, errors.Join(err, os.Remove(file.Name())))
	}
	return nil
}

// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build unix

package onstacktest

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// made is a directory of the test's own with a file `former` that everybody may read.
func made(t *testing.T) (dir, former string) {
	t.Helper()
	dir = t.TempDir()
	former = filepath.Join(dir, "former")
	if err := os.WriteFile(former, []byte("precious"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(former, 0o666); err != nil {
		t.Fatal(err)
	}
	return dir, former
}

func wantContent(t *testing.T, path, want string) {
	t.Helper()
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%s: %q %v, want %q", path, got, err, want)
	}
}

func wantNames(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	var got []string
	for _, entry := range entries {
		got = append(got, entry.Name())
	}
	if err != nil || strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("files: %v %v, want %v", got, err, want)
	}
}

func profileIn(w io.Writer) error {
	_, err := io.WriteString(w, "profile")
	return err
}

// Whoever has the former file open, or another name for it, keeps it as it was.
func TestFormerFileIsReplaced(t *testing.T) {
	for _, umask := range []int{0, 0o22, 0o377} {
		dir, former := made(t)
		other := filepath.Join(dir, "other")
		if err := os.Link(former, other); err != nil {
			t.Skip("no hard links here: ", err)
		}
		before := syscall.Umask(umask)
		err := replace(former, profileIn)
		syscall.Umask(before)
		if err != nil {
			t.Fatal(err)
		}
		wantContent(t, former, "profile")
		wantContent(t, other, "precious")
		wantNames(t, dir, "former", "other")
		if there, err := os.Lstat(former); err != nil || there.Mode() != 0o600 {
			t.Errorf("umask %o: %v %v", umask, there.Mode(), err)
		}
	}
}

func TestOnlyFilesAreReplaced(t *testing.T) {
	dir, former := made(t)
	link, dangling, pipe := filepath.Join(dir, "link"), filepath.Join(dir, "nowhere"), filepath.Join(dir, "pipe")
	if err := errors.Join(os.Symlink(former, link), os.Symlink("nothing", dangling), syscall.Mkfifo(pipe, 0o600)); err != nil {
		t.Skip("no links or pipes here: ", err)
	}
	for path, why := range map[string]string{link: "symbolic link", dangling: "symbolic link", pipe: "not a regular file",
		dir: "is a directory"} {
		before, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := replace(path, profileIn); err == nil || !strings.Contains(err.Error(), why) ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
		if after, err := os.Lstat(path); err != nil || after.Mode() != before.Mode() {
			t.Errorf("%s: %v became %v %v", path, before.Mode(), after, err)
		}
	}
	wantContent(t, former, "precious")
	wantNames(t, dir, "former", "link", "nowhere", "pipe")
}

func TestWhatIsNotWholeLeavesTheFormerFile(t *testing.T) {
	dir, former := made(t)
	broken := errors.New("no memory")
	err := replace(former, func(w io.Writer) error { return errors.Join(profileIn(w), broken) })
	if !errors.Is(err, broken) {
		t.Error(err)
	}
	wantContent(t, former, "precious")
	wantNames(t, dir, "former")
}

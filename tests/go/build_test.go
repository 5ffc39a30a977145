// SPDX-License-Identifier: MIT OR Apache-2.0

package stacks

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// builder builds hosts against the library in ONSTACK_BUILD. It keeps what it has built.
type builder struct {
	t         *testing.T
	root      string // of the repository
	directory string // where everything is written
	library   string // libonstack.a
	stamp     string // of the library's content: the go command does not look into libraries that flags name
	built     map[string]string
}

func newBuilder(t *testing.T) *builder {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	directory := os.Getenv("ONSTACK_BUILD")
	if directory == "" {
		directory = filepath.Join(root, "build", "go-stacks")
	}
	b := &builder{t: t, root: root, directory: directory, library: filepath.Join(directory, "lib", "libonstack.a"),
		built: map[string]string{}}
	content, err := os.ReadFile(b.library)
	if err != nil {
		t.Fatalf("%v\nbuild the library first: ci/test-go-stacks.sh does both", err)
	}
	b.stamp = fmt.Sprintf("%x", sha256.Sum256(content))[:16]
	return b
}

// for_ is the builder for a subtest.
func (b *builder) for_(t *testing.T) *builder {
	b.t = t
	return b
}

// command is a program with its arguments, ended after a minute and a half.
func (b *builder) command(program string, arguments ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	b.t.Cleanup(cancel)
	command := exec.CommandContext(ctx, program, arguments...)
	command.WaitDelay = time.Second
	return command
}

// goBuild builds a package to `name`; "" when that fails and `mayFail`.
func (b *builder) goBuild(name, pkg string, mayFail bool, env []string, flags ...string) string {
	if path := b.built[name]; path != "" {
		return path
	}
	path := filepath.Join(b.directory, name)
	arguments := append([]string{"build", "-o", path}, flags...)
	if len(flags) == 0 || flags[len(flags)-1] != "-s" {
		arguments = append(arguments, "-ldflags=-X main.library="+b.stamp)
	} else {
		arguments[len(arguments)-1] = "-ldflags=-s -w -X main.library=" + b.stamp
	}
	command := b.command("go", append(arguments, pkg)...)
	command.Env = append(os.Environ(), "CGO_ENABLED=1", "GOWORK=off", "GOFLAGS=",
		"CGO_CFLAGS=-O2 -I"+filepath.Join(b.root, "core", "include"), "CGO_LDFLAGS="+b.library+" -lpthread -ldl")
	command.Env = append(command.Env, env...)
	if out, err := command.CombinedOutput(); err != nil {
		if mayFail {
			b.t.Logf("%v: %v\n%s", command, err, out)
			return ""
		}
		b.t.Fatalf("%v: %v\n%s", command, err, out)
	}
	b.built[name] = path
	return path
}

// cBuild builds a C main of chost/ together with what else it needs.
func (b *builder) cBuild(name, source string, rest ...string) string {
	path := filepath.Join(b.directory, name)
	arguments := []string{"-O2", "-g", "-I" + filepath.Join(b.root, "core", "include"), "-o", path,
		filepath.Join("chost", source)}
	command := b.command("cc", append(append(arguments, rest...), "-lpthread", "-ldl")...)
	if out, err := command.CombinedOutput(); err != nil {
		b.t.Fatalf("%v: %v\n%s", command, err, out)
	}
	return path
}

func plainHost(b *builder) string { return b.goBuild("host", "./host", false, nil) }

func strippedHost(b *builder) string {
	return b.goBuild("host-stripped", "./host", false, nil, "-buildmode=pie", "-s")
}

func raceHost(b *builder) string { return b.goBuild("host-race", "./host", true, nil, "-race") }

func olderHost(version string) func(*builder) string {
	return func(b *builder) string {
		return b.goBuild("host-"+version, "./host", true, []string{"GOTOOLCHAIN=" + version})
	}
}

func archiveHost(b *builder) string {
	archive := b.goBuild("libhost.a", "./host", false, nil, "-buildmode=c-archive")
	return b.cBuild("archive", "archive.c", archive, b.library, "-lstdc++", "-lm")
}

func sharedHost(b *builder) string {
	library := b.goBuild("libhost.so", "./host", false, nil, "-buildmode=c-shared")
	b.t.Setenv("HOST_LIBRARY", library)
	return b.cBuild("shared", "shared.c", filepath.Join("recorder", "recorder.c"), b.library)
}

func wazeroHost(b *builder) string { return b.goBuild("wazero-host", "./wazero", false, nil) }

// wasmHost shares the module generator with the example.
func wasmHost(b *builder) string {
	overlay := filepath.Join(b.directory, "overlay.json")
	content, err := json.Marshal(map[string]map[string]string{"Replace": {
		filepath.Join(b.root, "tests", "go", "wasm", "module.go"): filepath.Join(b.root, "examples", "go-wasmtime", "module.go"),
	}})
	if err == nil {
		err = os.WriteFile(overlay, content, 0o644)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return b.goBuild("wasm-host", "./wasm", false, nil, "-tags=wasmtime", "-overlay="+overlay)
}

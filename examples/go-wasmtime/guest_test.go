// SPDX-License-Identifier: MIT OR Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bytecodealliance/wasmtime-go/v39"
	"github.com/google/pprof/profile"

	onstack "github.com/onstack-profiler/onstack/bindings/go"
)

// The guest burns its time in $inner.
const guestText = `(module
(func $inner (param $n i64) (result i64) (local $sum i64)
  (loop $again
    (local.set $sum (i64.add (i64.mul (local.get $sum) (i64.const 31)) (local.get $n)))
    (local.set $n (i64.sub (local.get $n) (i64.const 1)))
    (br_if $again (i64.ne (local.get $n) (i64.const 0))))
  (local.get $sum))
(func $outer (export "work") (param $n i64) (result i64)
  (i64.add (call $inner (local.get $n)) (call $inner (local.get $n)))))`

// runGuest profiles the guest until there are enough samples. Its code stays until the profile is written.
func runGuest(t *testing.T, config *wasmtime.Config, compile func(*wasmtime.Engine, []byte) (*wasmtime.Module, error)) *profile.Profile {
	engine := wasmtime.NewEngineWithConfig(config)
	defer engine.Close()
	binary, err := wasmtime.Wat2Wasm(guestText)
	if err != nil {
		t.Fatal(err)
	}
	module, err := compile(engine, binary)
	if err != nil {
		t.Fatal(err)
	}
	defer module.Close()
	store := wasmtime.NewStore(engine)
	defer store.Close()
	instance, err := wasmtime.NewInstance(store, module, nil)
	if err != nil {
		t.Fatal(err)
	}
	session, err := onstack.Start(onstack.WithRate(1000))
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	work := instance.GetFunc(store, "work")
	for begun := time.Now(); session.Stats().Samples < 500 && time.Since(begun) < time.Minute; {
		if _, err := work.Call(store, int64(1_000_000)); err != nil {
			t.Fatal(err)
		}
	}
	if err := session.Stop(); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if _, err := session.WriteTo(&out); err != nil {
		t.Fatal(err)
	}
	p, err := profile.ParseData(out.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// inAdvance compiles into a file, in which the code then lies when it runs.
func inAdvance(engine *wasmtime.Engine, binary []byte) (*wasmtime.Module, error) {
	module, err := wasmtime.NewModule(engine, binary)
	if err != nil {
		return nil, err
	}
	defer module.Close()
	compiled, err := module.Serialize()
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile("guest.cwasm", compiled, 0o600); err != nil {
		return nil, err
	}
	return wasmtime.NewModuleDeserializeFile(engine, "guest.cwasm")
}

// guestShare counts the samples whose leaf lies in generated code, and those of them that have the guest's functions: $inner,
// and above it $outer.
func guestShare(p *profile.Profile) (all, leaf, both int64, mappings map[string]bool) {
	mappings = map[string]bool{}
	for _, sample := range p.Sample {
		if len(sample.Location) < 2 {
			continue
		}
		mapping := sample.Location[0].Mapping
		if mapping == nil || (mapping.File != "//anon" && !strings.HasPrefix(mapping.File, "[generated") && !strings.HasSuffix(mapping.File, ".cwasm")) {
			continue
		}
		all += sample.Value[0]
		mappings[filepath.Base(mapping.File)] = true
		named := func(location int, part string) bool {
			lines := sample.Location[location].Line
			return len(lines) > 0 && strings.Contains(lines[0].Function.Name, part)
		}
		if named(0, "inner") {
			leaf += sample.Value[0]
			if named(1, "outer") {
				both += sample.Value[0]
			}
		}
	}
	return all, leaf, both, mappings
}

// The engine writes a jitdump that names its code. What it registers for GDB is not read.
func TestGuestCodeHasNames(t *testing.T) {
	t.Chdir(t.TempDir()) // where the dump is written
	jitdump := func(config *wasmtime.Config) { config.SetProfiler(wasmtime.ProfilingStrategyJitdump) }
	for _, c := range []struct {
		name    string
		mapping string // "": the guest has no names
		set     func(*wasmtime.Config)
		compile func(*wasmtime.Engine, []byte) (*wasmtime.Module, error)
	}{
		{"nothing", "", func(*wasmtime.Config) {}, wasmtime.NewModule},
		{"debug information", "", func(config *wasmtime.Config) { config.SetDebugInfo(true) }, wasmtime.NewModule},
		{"jitdump", "[generated: wasmtime]", jitdump, wasmtime.NewModule},
		{"compiled in advance", "guest.cwasm", jitdump, inAdvance},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := wasmtime.NewConfig()
			c.set(config)
			all, leaf, both, mappings := guestShare(runGuest(t, config, c.compile))
			t.Logf("%d samples in generated code, %d of them by name, %d with their caller; mappings %v", all, leaf, both, mappings)
			if all < 300 {
				t.Fatalf("%d samples in generated code", all)
			}
			if c.mapping == "" && leaf > 0 {
				t.Errorf("%d samples have a name that nobody gave", leaf)
			}
			if c.mapping != "" && (leaf*100 < all*98 || both*100 < all*95 || !mappings[c.mapping]) {
				t.Errorf("%d of %d samples by name, %d with their caller, mappings %v", leaf, all, both, mappings)
			}
		})
	}
}

// SPDX-License-Identifier: MIT OR Apache-2.0

// Command go-sqlite puts SQLite, a C library without frame pointers, under load from Go and profiles the whole process.
// It prints how much of the CPU time has a name, and how many stacks in SQLite reach the Go code that asked. Build it and run
// the binary: `go run` links without the symbol table, and native functions lose their names.
package main

import (
	"bytes"
	"context"
	"database/sql"
	"flag"
	"fmt"
	"log"
	"os"
	"runtime/pprof"
	"strings"
	"sync"
	"time"

	"github.com/google/pprof/profile"
	_ "github.com/mattn/go-sqlite3"
	onstack "github.com/onstack-profiler/onstack/bindings/go"
	_ "github.com/onstack-profiler/onstack/bindings/go/cgotraceback"
)

func main() {
	seconds := flag.Float64("seconds", 3, "how long to work")
	out := flag.String("out", "", "write the profile to this file")
	flag.Parse()
	if err := run(time.Duration(*seconds*float64(time.Second)), *out); err != nil {
		log.Fatal(err)
	}
}

func run(length time.Duration, path string) error {
	db, err := sql.Open("sqlite3", "file:load?mode=memory&cache=shared")
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.Exec("create table t (id integer primary key, name text, size integer)"); err != nil {
		return err
	}
	var native, ours bytes.Buffer
	if err := pprof.StartCPUProfile(&native); err != nil { // Go's own, at the same time
		return err
	}
	if err := onstack.StartCPUProfile(&ours); err != nil {
		return err
	}
	work(db, time.Now().Add(length))
	pprof.StopCPUProfile()
	if err := onstack.StopCPUProfile(); err != nil {
		return err
	}
	if path != "" {
		if err := os.WriteFile(path, ours.Bytes(), 0o600); err != nil {
			return err
		}
	}
	for name, data := range map[string]*bytes.Buffer{"onstack": &ours, "runtime/pprof": &native} {
		p, err := profile.Parse(data)
		if err != nil {
			return err
		}
		report(name, p)
	}
	return nil
}

// work writes and reads, with a label for each.
func work(db *sql.DB, end time.Time) {
	label := func(name string, f func(i int) error) func() {
		return func() {
			pprof.Do(context.Background(), pprof.Labels("task", name), func(context.Context) {
				for i := 0; time.Now().Before(end); i++ {
					// A table that is locked by the other is no failure.
					if err := f(i); err != nil && !strings.Contains(err.Error(), "locked") {
						log.Print(err)
					}
				}
			})
		}
	}
	var tasks sync.WaitGroup
	tasks.Go(label("write", func(i int) error {
		_, err := db.Exec("insert into t (name, size) values (?, ?)", fmt.Sprint("name", i), i%977)
		return err
	}))
	tasks.Go(label("read", func(i int) error {
		var sum sql.NullInt64
		return db.QueryRow("select sum(size) from t where name like ?", fmt.Sprint("%", i%10)).Scan(&sum)
	}))
	tasks.Wait()
}

func report(name string, p *profile.Profile) {
	var all, named, inSQLite, reachGo, labelled int64
	for _, sample := range p.Sample {
		value := sample.Value[1]
		all += value
		leaf, stack := "", ""
		for i, location := range sample.Location {
			for _, line := range location.Line {
				if i == 0 && leaf == "" {
					leaf = line.Function.Name
				}
				stack += line.Function.Name + "\n"
			}
		}
		if leaf != "" && !strings.HasPrefix(leaf, "[") && !strings.Contains(leaf, "+0x") {
			named += value
		}
		if len(sample.Label["task"]) > 0 {
			labelled += value
		}
		if strings.HasPrefix(stack, "sqlite3") {
			inSQLite += value
			if strings.Contains(stack, "main.work") {
				reachGo += value
			}
		}
	}
	share := func(part, whole int64) float64 { return 100 * float64(part) / float64(max(whole, 1)) }
	fmt.Printf("%-14s %6.2f s CPU, %.1f%% named, %.1f%% with a task label; %.1f%% right in sqlite3*, of these %.1f%% reach main.work\n", name,
		float64(all)/1e9, share(named, all), share(labelled, all), share(inSQLite, all), share(reachGo, inSQLite))
}

// SPDX-License-Identifier: MIT OR Apache-2.0

// A service's work: so many questions to DuckDB, on two goroutines.
package main

import (
	"database/sql"
	"fmt"
	"os"
	"strconv"

	_ "github.com/duckdb/duckdb-go/v2"
)

const question = `SELECT count(*), sum(length(most)) FROM (
	SELECT i % 5003 AS k, max('row ' || (i * 7919 % 100003)::VARCHAR) AS most FROM range(250000) AS numbers(i) GROUP BY k)`

func ask(db *sql.DB, times int) error {
	for range times {
		var groups, letters int64
		if err := db.QueryRow(question).Scan(&groups, &letters); err != nil {
			return err
		}
		if groups != 5003 {
			return fmt.Errorf("%d groups, not 5003", groups)
		}
	}
	return nil
}

func run() error {
	times, err := strconv.Atoi(os.Args[1])
	if err != nil {
		return err
	}
	db, err := sql.Open("duckdb", "")
	if err != nil {
		return err
	}
	defer db.Close()
	done := make(chan error)
	for range 2 {
		go func() { done <- ask(db, times) }()
	}
	if err := <-done; err != nil {
		return err
	}
	return <-done
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

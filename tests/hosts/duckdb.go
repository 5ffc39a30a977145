// SPDX-License-Identifier: MIT OR Apache-2.0

package main

import (
	"database/sql"
	"fmt"
	"time"

	_ "github.com/duckdb/duckdb-go/v2"
)

// Hash tables, sorting, windows and text: much of DuckDB, on all its threads and below the goroutine that asks.
const questions = `SELECT count(*), sum(length(most)) FROM (
	SELECT k, max(name) AS most, sum(place) AS places FROM (
		SELECT i % 5003 AS k, 'row ' || (i * 7919 % 100003)::VARCHAR AS name, row_number() OVER (PARTITION BY i % 17 ORDER BY hash(i)) AS place
		FROM range(300000) AS numbers(i))
	WHERE regexp_matches(name, '[13579]$') GROUP BY k ORDER BY places DESC)`

// What stays in its memory.
const kept = `CREATE TABLE kept AS SELECT i, 'row ' || (i * 7919 % 1000003)::VARCHAR AS name, hash(i) AS number FROM range(2000000) AS numbers(i)`

func runDuckDB(until time.Time) (string, error) {
	db, err := sql.Open("duckdb", "")
	if err != nil {
		return "", err
	}
	defer db.Close()
	if _, err := db.Exec(kept); err != nil {
		return "", err
	}
	asked := 0
	for ; time.Now().Before(until); asked++ {
		var groups, letters int64
		if err := db.QueryRow(questions).Scan(&groups, &letters); err != nil {
			return "", err
		}
		if groups != 5003 {
			return "", fmt.Errorf("%d groups, not 5003", groups)
		}
	}
	return fmt.Sprintf("%d queries", asked), nil
}

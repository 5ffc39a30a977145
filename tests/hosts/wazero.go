// SPDX-License-Identifier: MIT OR Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/tetratelabs/wazero"
)

// A module with one function, fib(n), which calls itself: the sections are its types, functions, exports and code.
var fibonacci = []byte{
	0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00,
	0x01, 0x06, 0x01, 0x60, 0x01, 0x7f, 0x01, 0x7f,
	0x03, 0x02, 0x01, 0x00,
	0x07, 0x07, 0x01, 0x03, 'f', 'i', 'b', 0x00, 0x00,
	0x0a, 0x1e, 0x01, 0x1c, 0x00, 0x20, 0x00, 0x41, 0x02, 0x48, 0x04, 0x7f, 0x20, 0x00, 0x05,
	0x20, 0x00, 0x41, 0x01, 0x6b, 0x10, 0x00, 0x20, 0x00, 0x41, 0x02, 0x6b, 0x10, 0x00, 0x6a, 0x0b, 0x0b,
}

func runWazero(until time.Time) (string, error) {
	ctx := context.Background()
	runtime := wazero.NewRuntime(ctx)
	defer runtime.Close(ctx)
	module, err := runtime.Instantiate(ctx, fibonacci)
	if err != nil {
		return "", err
	}
	calls := 0
	for ; time.Now().Before(until); calls++ {
		result, err := module.ExportedFunction("fib").Call(ctx, 25)
		if err != nil {
			return "", err
		}
		if result[0] != 75025 {
			return "", fmt.Errorf("fib(25) is %d, not 75025", result[0])
		}
	}
	return fmt.Sprintf("%d calls", calls), nil
}

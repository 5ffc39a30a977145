// SPDX-License-Identifier: MIT OR Apache-2.0

package main

// section is a section of a WebAssembly module, or an entry of one: its length and its content. All are shorter than 128
// bytes.
func section(head []byte, content ...[]byte) []byte {
	var all []byte
	for _, part := range content {
		all = append(all, part...)
	}
	return append(append(head, byte(len(all))), all...)
}

// binary is, in the text format:
//
//	(module
//	  (import "host" "work" (func $work (param i32) (result i32)))
//	  (func $fib (export "fib") (param i32) (result i32)
//	    (if (result i32) (i32.lt_s (local.get 0) (i32.const 2))
//	      (then (local.get 0))
//	      (else (i32.add (call $fib (i32.sub (local.get 0) (i32.const 1)))
//	                     (call $fib (i32.sub (local.get 0) (i32.const 2)))))))
//	  (func $loop (export "loop") (param i32) (result i32) (local i32)
//	    (loop $again
//	      (local.set 1 (i32.add (i32.mul (local.get 1) (i32.const 31)) (local.get 0)))
//	      (br_if $again (local.tee 0 (i32.sub (local.get 0) (i32.const 1)))))
//	    (local.get 1))
//	  (func $all (export "all") (param i32) (result i32)
//	    (i32.add (call $loop (i32.mul (local.get 0) (i32.const 1000)))
//	             (i32.add (call $fib (local.get 0)) (call $work (local.get 0)))))
//	  (func $after (export "after") (param i32) (result i32) (local i32)
//	    (drop (call $work (i32.const 22)))
//	    ... as $loop))
func binary() []byte {
	fib := []byte{0, 0x20, 0, 0x41, 2, 0x48, 0x04, 0x7f, 0x20, 0, 0x05,
		0x20, 0, 0x41, 1, 0x6b, 0x10, 1, 0x20, 0, 0x41, 2, 0x6b, 0x10, 1, 0x6a, 0x0b, 0x0b}
	locals := []byte{1, 1, 0x7f}
	again := []byte{0x03, 0x40,
		0x20, 1, 0x41, 31, 0x6c, 0x20, 0, 0x6a, 0x21, 1,
		0x20, 0, 0x41, 1, 0x6b, 0x22, 0, 0x0d, 0, 0x0b, 0x20, 1, 0x0b}
	all := []byte{0, 0x20, 0, 0x41, 0xe8, 0x07, 0x6c, 0x10, 2,
		0x20, 0, 0x10, 1, 0x20, 0, 0x10, 0, 0x6a, 0x6a, 0x0b}
	module := []byte("\x00asm\x01\x00\x00\x00")
	for _, part := range [][]byte{
		section([]byte{1}, []byte{1, 0x60, 1, 0x7f, 1, 0x7f}),
		section([]byte{2}, []byte("\x01\x04host\x04work\x00\x00")),
		section([]byte{3}, []byte{4, 0, 0, 0, 0}),
		section([]byte{7}, []byte("\x04\x03fib\x00\x01\x04loop\x00\x02\x03all\x00\x03\x05after\x00\x04")),
		section([]byte{10}, []byte{4}, section(nil, fib), section(nil, locals, again), section(nil, all),
			section(nil, locals, []byte{0x41, 22, 0x10, 0, 0x1a}, again)),
	} {
		module = append(module, part...)
	}
	return module
}

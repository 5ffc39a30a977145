// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builds the driver and links the Go archive, which lies in the directory that MATRIX_OUT names.

use std::{env, path::Path};

fn main() {
    println!("cargo:rerun-if-env-changed=MATRIX_OUT");
    let out =
        env::var("MATRIX_OUT").expect("MATRIX_OUT: the directory of libmatrixgo.a (tests/matrix/Makefile sets it)");
    let host = Path::new("../host");
    let mut build = cc::Build::new();
    build.std("gnu11").define("_GNU_SOURCE", None).include("../../../core/include").include(host);
    for name in ["driver.c", "ours.c", "burn.c", "owner.c", "plain.c"] {
        println!("cargo:rerun-if-changed=../host/{name}");
        build.file(host.join(name));
    }
    build.compile("matrixdriver");
    println!("cargo:rerun-if-changed={out}/libmatrixgo.a");
    for program in ["rust-archive", "rust-stacks"] {
        println!("cargo:rustc-link-arg-bin={program}={out}/libmatrixgo.a");
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builds the core from `csrc` and the plug-in for CPython and PHP from `interpreters`: links to their directories in the
//! repository, real files in the published crate.

#[cfg(not(feature = "system"))]
use std::path::{Path, PathBuf};
#[cfg(not(feature = "system"))]
use std::{env, fs, io};

fn main() {
    #[cfg(feature = "system")]
    link_system_copy();
    #[cfg(not(feature = "system"))]
    build_own_copy();
}

/// The library that is installed on the system; its functions are found by their version 0.1 symbols.
#[cfg(feature = "system")]
fn link_system_copy() {
    pkg_config::Config::new().range_version("0.1".."0.2").probe("onstack-interpreters").unwrap_or_else(|error| {
        panic!(
            "onstack-sys: {error}. The feature `system` needs an installed libonstack 0.1 and its onstack-interpreters.pc \
             (PKG_CONFIG_PATH says where else to look); without the feature the library is built from source"
        )
    });
}

#[cfg(not(feature = "system"))]
fn build_own_copy() {
    let package = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let (root, interpreters) = (package.join("csrc"), package.join("interpreters"));
    let include = root.join("include");
    let sources = ["platform", "sampler", "profile"].map(|folder| root.join(folder));

    let mut files = Vec::new();
    for directory in [&include, &interpreters].into_iter().chain(&sources) {
        collect(directory, &mut files).unwrap_or_else(|error| {
            panic!(
                "onstack-sys: cannot read {}: {error}. In a checkout it lies behind a symbolic link; \
                 on systems without links clone with `git -c core.symlinks=true`",
                directory.display()
            )
        });
    }

    let mut build = cc::Build::new();
    build
        .std("c11")
        .define("_GNU_SOURCE", None)
        // Hidden, the public functions too: what a Rust binary carries is its own copy, and must neither be
        // replaced by a preloaded library's nor replace it.
        .define("ONSTACK_API", "")
        .flag("-fvisibility=hidden")
        // The handler runs on threads whose thread pointer may be 0; the protector reads through it.
        .flag("-fno-stack-protector")
        .pic(true)
        .warnings(true)
        .include(&include)
        .include(&root)
        .include(interpreters.join("include"));
    // Unoptimized, the handler needs more of the signal stack than the core promises.
    if env::var("OPT_LEVEL").as_deref() == Ok("0") {
        build.opt_level(2);
    }
    build.files(files.iter().filter(|file| file.extension().is_some_and(|e| e == "c")));
    build.compile("onstack");

    // After `compile`, because the archive refers to these.
    println!("cargo:rustc-link-lib=pthread");
    println!("cargo:include={}", include.display());
}

#[cfg(not(feature = "system"))]
/// Adds every file below `directory`, in the order of their names so that builds are alike, and asks cargo to run
/// this script again when one of them changes or a new one comes.
fn collect(directory: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    println!("cargo:rerun-if-changed={}", directory.display());
    let mut entries = fs::read_dir(directory)?.map(|entry| entry.map(|e| e.path())).collect::<io::Result<Vec<_>>>()?;
    entries.sort();
    for path in entries {
        if path.is_dir() {
            collect(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

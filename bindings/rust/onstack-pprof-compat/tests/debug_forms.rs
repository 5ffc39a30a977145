// SPDX-License-Identifier: MIT OR Apache-2.0
//! Wherever a compiler leaves debug information: in the library, packed, in files beside it, behind a link.

use std::ffi::{CStr, CString};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, fs};

use onstack_pprof_compat::{ProfilerGuardBuilder, Symbol};

/// Only debug information knows `within`: all of it lies in `burn`.
const SOURCE: &str = r#"
#[inline(always)]
fn within(mut x: u64) -> u64 {
    for _ in 0..200_000 {
        x = (x ^ (x >> 7)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    x
}
#[no_mangle]
pub extern "C" fn burn(x: u64) -> u64 {
    within(std::hint::black_box(x))
}
"#;

/// The same, line for line, in another language.
const SOURCE_IN_C: &str = r#"
static inline __attribute__((always_inline))
unsigned long within(unsigned long x) {
    for (int i = 0; i < 200000; i++) {
        x = (x ^ (x >> 7)) * 0x9e3779b97f4a7c15;
    }
    return x;
}
unsigned long burn(unsigned long x) {
    return within(x);
}
"#;

type Burn = extern "C" fn(u64) -> u64;

/// Builds the library as `form` with further arguments for rustc.
fn build(form: &str, arguments: &[&str]) -> PathBuf {
    build_of(SOURCE, form, arguments)
}

fn directory_of(form: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("debug-forms").join(form);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    directory
}

fn build_of(source: &str, form: &str, arguments: &[&str]) -> PathBuf {
    let directory = directory_of(form);
    fs::write(directory.join("lib.rs"), source).unwrap();
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let status = Command::new(rustc)
        .args(["--crate-type=cdylib", "--crate-name=forms", "-O", "-g", "lib.rs"])
        .args(arguments)
        .current_dir(&directory)
        .status()
        .unwrap();
    assert!(status.success(), "rustc {arguments:?}");
    directory.join("libforms.so")
}

fn tool(program: &str, arguments: &[&str], directory: &Path) {
    let status = Command::new(program).args(arguments).current_dir(directory).status();
    assert!(status.unwrap_or_else(|error| panic!("{program}: {error}; install binutils")).success());
}

fn load(library: &Path) -> Burn {
    let path = CString::new(library.to_str().unwrap()).unwrap();
    // SAFETY: strings that live during the calls; the symbol is the function of SOURCE, whose library is never closed.
    unsafe {
        let handle = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        assert!(!handle.is_null(), "{:?}", CStr::from_ptr(libc::dlerror()));
        let symbol = libc::dlsym(handle, c"burn".as_ptr());
        assert!(!symbol.is_null());
        std::mem::transmute::<*mut libc::c_void, Burn>(symbol)
    }
}

/// The innermost function at the place where the library spends its time.
fn hottest(burn: Burn) -> Vec<Symbol> {
    let guard = ProfilerGuardBuilder::default().frequency(250).build().unwrap();
    let limit = Instant::now() + Duration::from_secs(30);
    loop {
        let until = Instant::now() + Duration::from_millis(200);
        let mut x = 1;
        while Instant::now() < until {
            x = burn(x);
        }
        std::hint::black_box(x);
        let report = guard.report().build().unwrap();
        // The other tests burn in libraries of their own, on other threads of this process.
        // SAFETY: takes nothing and changes nothing.
        let own = unsafe { libc::syscall(libc::SYS_gettid) } as u64;
        let here = report.data.keys().filter(|stack| stack.thread_id == own);
        // By the address: it may have no name.
        let code = burn as usize..burn as usize + 512;
        let address = |symbol: &Symbol| symbol.addr.map_or(0, |address| address as usize);
        let in_burn = |frame: &&Vec<Symbol>| frame.last().is_some_and(|symbol| code.contains(&address(symbol)));
        if let Some(frame) = here.filter_map(|stack| stack.frames.first()).find(in_burn) {
            return frame.clone();
        }
        assert!(Instant::now() < limit, "burn was not sampled within 30 s");
    }
}

fn check(library: &Path, knows_lines: bool) {
    let frame = hottest(load(library));
    let names: Vec<String> = frame.iter().map(Symbol::name).collect();
    if knows_lines {
        // Parts of the loop itself are inlined there in turn.
        let inner = names.iter().rev().nth(1).is_some_and(|name| name == "forms::within" || name == "within");
        assert!(inner && names.ends_with(&["burn".into()]), "{}: {names:?}", library.display());
        let within = &frame[frame.len() - 2];
        assert!(within.filename().contains("lib.") && (3..=8).contains(&within.lineno()), "{frame:?}");
    } else {
        assert_eq!(names, ["burn"], "{}", library.display());
    }
}

#[test]
fn in_the_library() {
    check(&build("plain", &[]), true);
}

#[test]
fn compressed() {
    let library = build("compressed", &[]);
    tool("objcopy", &["--compress-debug-sections=zlib", "libforms.so"], library.parent().unwrap());
    check(&library, true);
}

#[test]
fn in_a_package_beside_it() {
    let library = build("packed", &["-Csplit-debuginfo=packed"]);
    assert!(library.with_extension("so.dwp").is_file());
    check(&library, true);
}

#[test]
fn in_files_of_its_units() {
    check(&build("unpacked", &["-Csplit-debuginfo=unpacked", "-Ccodegen-units=1"]), true);
}

/// As gcc and clang write them today, DWARF 5; rustc writes 4.
#[test]
fn in_files_of_units_in_c() {
    let directory = directory_of("unpacked-c");
    fs::write(directory.join("lib.c"), SOURCE_IN_C).unwrap();
    let arguments = ["-O1", "-gdwarf-5", "-gsplit-dwarf", "-fPIC", "-shared", "lib.c", "-o", "libforms.so"];
    tool("cc", &arguments, &directory);
    check(&directory.join("libforms.so"), true);
}

#[test]
fn in_units_that_are_gone() {
    let library = build("gone", &["-Csplit-debuginfo=packed"]);
    fs::remove_file(library.with_extension("so.dwp")).unwrap();
    check(&library, false);
}

#[test]
fn behind_a_link() {
    let library = build("link", &[]);
    let directory = library.parent().unwrap();
    tool("objcopy", &["--only-keep-debug", "libforms.so", "libforms.debug"], directory);
    tool("objcopy", &["--strip-debug", "--add-gnu-debuglink=libforms.debug", "libforms.so"], directory);
    check(&library, true);
}

/// A deployment puts another build into the place of one that runs: its names lie at other addresses.
#[test]
fn in_a_file_that_was_replaced() {
    let arguments = ["-Clink-arg=-Wl,--build-id=sha1"];
    let library = build("replaced", &arguments);
    let burn = load(&library);
    let names = |burn| hottest(burn).iter().map(Symbol::name).collect::<Vec<_>>();
    assert!(names(burn).contains(&"forms::within".into()));
    let other = build_of(&SOURCE.replace("within", "invented"), "replaced-other", &arguments);
    fs::rename(other, &library).unwrap();
    let names = names(burn);
    assert!(!names.iter().any(|name| name.contains("invented")), "{names:?}");
}

/// Nothing tells whether the file is the one that runs.
#[test]
fn in_a_file_without_a_build_id() {
    check(&build("without-id", &["-Clink-arg=-Wl,--build-id=none"]), false);
}

#[test]
fn behind_a_relative_name() {
    let library = build("relative", &[]);
    let up = "../".repeat(env::current_dir().unwrap().components().count() - 1);
    let relative = format!("./{up}{}", library.strip_prefix("/").unwrap().display());
    check(Path::new(&relative), true);
}

#[test]
fn nowhere() {
    let library = build("nowhere", &[]);
    tool("objcopy", &["--strip-debug", "libforms.so"], library.parent().unwrap());
    check(&library, false);
}

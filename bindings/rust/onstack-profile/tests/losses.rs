// SPDX-License-Identifier: MIT OR Apache-2.0
//! A library that cannot be unwound is named, as its file is, with what its makers can do.

#![cfg(target_arch = "x86_64")] // it spoils the frame pointer by hand

use std::ffi::CString;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use onstack::{ProfilerGuard, Truncation};
use onstack_profile::Profiled;

const SOURCE: &str = r#"
unsigned long spoil(unsigned long x) {
  for (int round = 0; round < 1000; round++) {
    unsigned long count = 1000;
    __asm__ volatile("mov $3, %%rbp\n1: imul $7, %0, %0\ndec %1\njnz 1b" : "+r"(x), "+r"(count) : : "rbp", "cc");
  }
  return x;
}
"#;

#[test]
fn the_library_that_cuts_stacks_is_named_with_an_advice() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (code, library) = (directory.join("spoil.c"), directory.join("lib\\spoil.so"));
    fs::write(&code, SOURCE).unwrap();
    let flags = ["-O2", "-shared", "-fPIC", "-fomit-frame-pointer", "-fno-asynchronous-unwind-tables", "-o"];
    assert!(Command::new("cc").args(flags).arg(&library).arg(&code).status().unwrap().success());
    let path = CString::new(library.to_str().unwrap()).unwrap();
    // SAFETY: strings that live during the calls; the symbol is the function of SOURCE, whose library is never closed.
    let spoil = unsafe {
        let handle = libc::dlopen(path.as_ptr(), libc::RTLD_NOW);
        let symbol = libc::dlsym(handle, c"spoil".as_ptr());
        assert!(!symbol.is_null());
        std::mem::transmute::<*mut libc::c_void, extern "C" fn(u64) -> u64>(symbol)
    };

    let guard = ProfilerGuard::new(250).unwrap();
    let limit = Instant::now() + Duration::from_secs(30);
    let lost = loop {
        (0..50).for_each(|x| assert_ne!(std::hint::black_box(spoil(2 * x + 1)), 0));
        let modules = guard.modules().unwrap();
        let found = modules.into_iter().find(|module| module.path.ends_with("lib\\spoil.so") && module.lost > 4);
        if let Some(module) = found {
            break module;
        }
        assert!(Instant::now() < limit, "{:?}", guard.modules());
    };
    assert_eq!(lost.lost_by(Truncation::Not), 0);
    let advice = lost.advice().unwrap();
    assert!(advice.contains("-fasynchronous-unwind-tables"), "{advice}");

    // A profile takes it along.
    let summary = guard.profile().unwrap().summary();
    let module = summary.losses.iter().find(|module| module.path.ends_with("lib\\spoil.so")).unwrap();
    assert!(module.lost >= lost.lost && module.advice == Some(advice), "{module:?}");
    assert!(summary.to_string().contains("lib\\spoil.so: it has neither"), "{summary}");
}

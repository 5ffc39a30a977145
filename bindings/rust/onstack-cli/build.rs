// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builds the preload library that the command carries (feature `preload`), from `csrc` and `interpreters`: links to the core
//! and to its plug-in in the repository, real files in the published crate. As core/preload/preload.mk does, but without zlib: `record` compresses.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-check-cfg=cfg(carries_preload)");
    #[cfg(feature = "preload")]
    carried::build();
}

#[cfg(feature = "preload")]
mod carried {
    use std::path::{Path, PathBuf};
    use std::{env, fs};

    pub fn build() {
        let of_target = |what: &str| env::var(format!("CARGO_CFG_TARGET_{what}")).unwrap_or_default();
        // Elsewhere there are no sessions, and nothing to preload.
        if of_target("OS") != "linux" || !["x86_64", "aarch64"].contains(&of_target("ARCH").as_str()) {
            return;
        }
        println!("cargo:rustc-cfg=carries_preload");
        let package = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
        let (root, interpreters) = (package.join("csrc"), package.join("interpreters"));
        let library = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("libonstack-preload.so");
        let objects = compile(&root, &interpreters);
        link(&root.join("preload/preload.map"), &objects, &library);
    }

    fn compile(root: &Path, interpreters: &Path) -> Vec<PathBuf> {
        let mut build = compiler(root);
        build.include(interpreters.join("include"));
        let mut files = Vec::new();
        for part in ["include", "platform", "sampler", "profile", "preload", "heap"] {
            collect(&root.join(part), &mut files);
        }
        collect(interpreters, &mut files);
        files.retain(|file| {
            let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            name.ends_with(".c") && name != "compress_zlib.c" && name != "malloc.c"
        });
        let mut objects = build.files(files).compile_intermediates();
        // Its malloc is what a compiler takes for malloc: no-builtin keeps it from turning the one into the other.
        let mut heap = compiler(root);
        heap.flag("-fno-builtin").flag("-fno-optimize-sibling-calls").file(root.join("heap/malloc.c"));
        objects.extend(heap.compile_intermediates());
        objects
    }

    fn compiler(root: &Path) -> cc::Build {
        let mut build = cc::Build::new();
        build
            .std("c11")
            .define("_GNU_SOURCE", None)
            .define("ONSTACK_API", "")
            .flag("-fvisibility=hidden")
            .flag("-fno-omit-frame-pointer")
            // The handler runs on threads whose thread pointer may be 0; the protector reads through it.
            .flag("-fno-stack-protector")
            .flag_if_supported("-mno-outline-atomics")
            .pic(true)
            .warnings(true)
            // Unoptimized, the handler needs more of the signal stack than the core promises.
            .opt_level(2)
            .debug(false)
            .cargo_metadata(false)
            .include(root.join("include"))
            .include(root);
        build
    }

    fn link(names: &Path, objects: &[PathBuf], library: &Path) {
        let mut command = cc::Build::new().opt_level(2).pic(true).cargo_metadata(false).get_compiler().to_command();
        command
            .args(["-shared", "-Wl,-soname,libonstack-preload.so", "-Wl,-z,nodelete", "-Wl,-z,now", "-Wl,-z,defs"])
            .args(["-Wl,--wrap=sigaction", "-Wl,--wrap=pthread_create", "-Wl,--strip-debug"])
            .arg(format!("-Wl,--version-script={}", names.display()))
            .args(objects)
            .arg("-o")
            .arg(library)
            .args(["-lpthread", "-ldl"]);
        let status = command.status().unwrap_or_else(|error| panic!("onstack-cli: {command:?}: {error}"));
        assert!(
            status.success(),
            "onstack-cli: the preload library cannot be linked; `--no-default-features --features push` builds the \
             command without it, for systems that have one installed"
        );
    }

    /// Adds every file below `directory`, in the order of their names so that builds are alike, and asks cargo to run this
    /// script again when one of them changes or a new one comes.
    fn collect(directory: &Path, files: &mut Vec<PathBuf>) {
        println!("cargo:rerun-if-changed={}", directory.display());
        let entries = fs::read_dir(directory).unwrap_or_else(|error| {
            panic!(
                "onstack-cli: cannot read {}: {error}. In a checkout it lies behind a symbolic link; on systems \
                 without links clone with `git -c core.symlinks=true`",
                directory.display()
            )
        });
        let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths {
            if path.is_dir() {
                collect(&path, files);
            } else {
                files.push(path);
            }
        }
    }
}

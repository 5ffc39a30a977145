// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes the message types of the feature `protobuf-codec`: their code belongs to the exact version of `protobuf` that
//! the program links, so it cannot be checked in.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    #[cfg(feature = "protobuf-codec")]
    generate();
}

#[cfg(feature = "protobuf-codec")]
fn generate() {
    println!("cargo:rerun-if-changed=proto/profile.proto");
    let out = std::path::PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it")).join("protos");
    std::fs::create_dir_all(&out).expect("cargo's output directory can be written");
    protobuf_codegen::Codegen::new()
        .pure()
        .include("proto")
        .input("proto/profile.proto")
        .out_dir(out)
        .run()
        .expect("the description of the messages is right");
}

//! Builds the C++ shim around libtorch, and lets the worker find libtorch where it was built.

use std::env;
use std::path::{Path, PathBuf};

fn main() {
    println!("cargo::rerun-if-env-changed=LIBTORCH");
    let root = PathBuf::from(env::var_os("LIBTORCH").expect("torch-sys has built, and it needs LIBTORCH"));
    compile_shim(&root);
    // On another machine libtorch is elsewhere; the launcher there says where.
    if env::var_os("TARGET") == env::var_os("HOST") {
        println!("cargo::rustc-link-arg=-Wl,-rpath,{}", root.join("lib").display());
    }
}

fn compile_shim(root: &Path) {
    const SHIM: [&str; 5] =
        ["src/allocator.cpp", "src/autocast.cpp", "src/checkpoint.cpp", "src/gpu.cpp", "src/tape.cpp"];
    println!("cargo::rerun-if-changed=src/attempt.h");
    SHIM.iter().for_each(|file| println!("cargo::rerun-if-changed={file}"));
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .flag("-isystem")
        .flag(root.join("include"))
        .files(SHIM)
        .compile("perf4sight_shim");
}

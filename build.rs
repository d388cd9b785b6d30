//! Generates the ONNX message types and, with the `torch` feature, builds the C++ shim and finds libtorch.

fn main() {
    onnx::build();
    #[cfg(feature = "torch")]
    libtorch::build();
}

mod onnx {
    /// Rust types from ONNX's own schema (`proto/onnx.proto`, as the `onnx` 1.23 wheel ships it), without a `protoc` binary.
    pub fn build() {
        const SCHEMA: &str = "proto/onnx.proto";
        println!("cargo::rerun-if-changed={SCHEMA}");
        let schema = protox::compile([SCHEMA], ["proto"]).expect("the schema is ONNX's own and compiles");
        prost_build::Config::new()
            // The schema's indented examples would run as doctests.
            .disable_comments(["."])
            .enum_attribute(".", "#[allow(clippy::enum_variant_names)]")
            .compile_fds(schema)
            .expect("OUT_DIR is writable");
    }
}

#[cfg(feature = "torch")]
mod libtorch {
    use std::path::{Path, PathBuf};
    use std::{env, fs};

    /// Compiles the shim, and lets every binary, test and doctest find libtorch without an environment variable.
    pub fn build() {
        println!("cargo::rerun-if-env-changed=LIBTORCH");
        let root = PathBuf::from(env::var_os("LIBTORCH").expect("torch-sys has built, and it needs LIBTORCH"));
        compile_shim(&root);
        // On another machine libtorch lies elsewhere; the launcher there says where.
        if env::var_os("TARGET") == env::var_os("HOST") {
            println!("cargo::rustc-link-arg=-Wl,-rpath,{}", root.join("lib").display());
            link_doctests(&root.join("lib"));
        }
    }

    fn compile_shim(root: &Path) {
        const SHIM: [&str; 3] = ["allocator.cpp", "gpu.cpp", "tape.cpp"];
        let folder = Path::new("src/device/torch");
        println!("cargo::rerun-if-changed={}", folder.join("attempt.h").display());
        SHIM.iter().for_each(|file| println!("cargo::rerun-if-changed={}", folder.join(file).display()));
        cc::Build::new()
            .cpp(true)
            .std("c++17")
            .flag("-isystem")
            .flag(root.join("include"))
            .files(SHIM.map(|file| folder.join(file)))
            .compile("perf4sight_shim");
    }

    /// Doctests get no link arguments; for them cargo puts link paths under its own target folder, and no others, on the
    /// loader's path. So libtorch's libraries are linked into such a folder.
    fn link_doctests(libraries: &Path) {
        let folder = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("libtorch");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("OUT_DIR is writable");
        for library in fs::read_dir(libraries).expect("libtorch has a lib folder").flatten() {
            std::os::unix::fs::symlink(library.path(), folder.join(library.file_name())).expect("OUT_DIR is writable");
        }
        println!("cargo::rustc-link-search=native={}", folder.display());
    }
}

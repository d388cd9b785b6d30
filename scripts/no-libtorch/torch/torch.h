// Found only where LIBTORCH holds no headers of its own: .cargo/config.toml puts this folder last on the include path,
// so that a build without libtorch says what to do.
#error "libtorch is missing: run ./main or ./test once (they fetch it), set LIBTORCH to a libtorch 2.11.0 tree, or build without --workspace: only the worker needs it"

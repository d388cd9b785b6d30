//! One file per config section or command-line verb, and the context they run in.

//! Dividing a trace of a million events.
fn main() {}

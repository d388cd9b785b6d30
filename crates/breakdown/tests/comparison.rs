//! Two runs compared: by hand, and how often intervals hold that ought to hold 95 times in 100.

#![allow(clippy::unwrap_used)] // in a test it is the assertion

mod invented;

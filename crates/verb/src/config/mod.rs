//! INI text to sections of typed values with line numbers; knows no section of its own.
//!
//! A [`Document`] is the text as written; a [`Table`] says which keys a section may hold, of which [`Kind`] and with
//! which [`Missing`]; [`Values`] are a section's checked values with the defaults filled in.
//!
//! Paths are relative to the current directory. `~` is not expanded: a path that starts with it is refused, because a
//! folder of that name is never what was meant.

mod document;
mod from_value;
mod key;
mod layout;
mod literal;
mod toml;
mod values;

pub use document::{Document, Entry, Origin, SectionText};
pub use from_value::FromValue;
pub use key::{Key, Kind, Missing, Table};
pub use literal::Value;
pub use values::Values;

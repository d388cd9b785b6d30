//! Parses INI text and arguments into typed values with their place in the source; independent of any particular
//! section.
//!
//! A [`ConfigDocument`] is the text as written, or the arguments of a verb; a [`SettingTable`] lists the permitted [`Setting`]s,
//! each declared once; [`SettingValues`] are the checked values with the defaults filled in.
//!
//! Paths are relative to the current directory. `~` is not expanded: a path that starts with it is refused, because a
//! folder of that name is never meant.

mod declare;
mod defaults;
mod document;
mod from_value;
mod kind;
mod layout;
mod literal;
mod setting;
mod table;
mod toml;
mod values;

pub use declare::{flag, integer, memory, number, path, text, time, word};
pub use document::{ConfigDocument, ConfigEntry, SectionText, ValueOrigin};
pub use from_value::FromValue;
pub use kind::ValueKind;
pub use literal::Value;
pub use setting::{ArgumentForm, ArgumentSpec, Conflicts, DefaultValue, Setting, Surface};
pub use table::SettingTable;
pub use values::SettingValues;

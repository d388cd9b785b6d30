//! The properties of a machine that affect measurements, by name.

use std::collections::{BTreeMap, BTreeSet};

/// Properties that must be the same for measurements to be comparable, by name: `processor`, `threads`, `libtorch`, ...
pub type Setting = BTreeMap<String, String>;

/// The differences between two settings, each as "name was this, is that".
pub fn differences(before: &Setting, now: &Setting) -> Vec<String> {
    let names: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
    let shown = |setting: &Setting, name: &str| setting.get(name).map_or("unknown", String::as_str).to_owned();
    let different = names.into_iter().filter(|name| before.get(*name) != now.get(*name));
    different.map(|name| format!("{name} was {}, is {}", shown(before, name), shown(now, name))).collect()
}

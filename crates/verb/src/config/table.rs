//! The settings of one section or verb.

use super::setting::{Setting, Surface};

/// The settings of one section or verb.
#[derive(Debug, Clone, Copy)]
pub struct SettingTable {
    /// The name between the brackets, or of the verb.
    pub section: &'static str,
    /// Its purpose, in one line.
    pub about: &'static str,
    /// Its settings, in the order they are documented; a group of them may be in several tables.
    pub groups: &'static [&'static [Setting]],
}

impl SettingTable {
    /// The setting of that key.
    pub fn setting(&self, key: &str) -> Option<&'static Setting> {
        self.settings().find(|setting| setting.key == key)
    }

    /// All of its settings.
    pub fn settings(&self) -> impl Iterator<Item = &'static Setting> + Clone {
        self.groups.iter().copied().flatten()
    }

    /// The settings that may be written there.
    pub fn for_surface(&self, surface: Surface) -> impl Iterator<Item = &'static Setting> + Clone {
        self.settings().filter(move |setting| setting.is_on(surface))
    }
}

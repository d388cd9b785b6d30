//! Interned names: each is stored once.

use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NameId(pub(crate) u32);

/// The names of a trace, each stored once. A trace may have a million different names, for example with addresses in
/// them; separate strings would take a hundred bytes each in addition to their text.
#[derive(Debug, Clone, Default)]
pub struct NameTable {
    /// All texts, one after the other.
    texts: String,
    ends: Vec<usize>,
    ids: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl NameId {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl NameTable {
    /// The id of a name, which is added if it is new. The stored name is one line without unprintable characters; a
    /// name that is already stored needs no check.
    pub fn intern(&mut self, name: impl AsRef<[u8]>) -> NameId {
        let bytes = name.as_ref();
        let hash = self.hasher.hash_one(bytes);
        if let Some(id) = self.find_hashed(hash, bytes) {
            return id;
        }
        match str::from_utf8(bytes) {
            Ok(text) if !text.contains(is_unprintable) => self.add(hash, text),
            _ => self.intern(printable(&String::from_utf8_lossy(bytes))),
        }
    }

    fn find_hashed(&self, hash: u64, bytes: &[u8]) -> Option<NameId> {
        let same = |id: &u32| self.get(NameId(*id)).as_bytes() == bytes;
        self.ids.find(hash, same).copied().map(NameId)
    }

    fn add(&mut self, hash: u64, text: &str) -> NameId {
        let id = self.ends.len() as u32;
        self.texts.push_str(text);
        self.ends.push(self.texts.len());
        let NameTable { texts, ends, ids, hasher } = self;
        ids.insert_unique(hash, id, |id| hasher.hash_one(text_of(texts, ends, *id).as_bytes()));
        NameId(id)
    }

    pub fn get(&self, id: NameId) -> &str {
        text_of(&self.texts, &self.ends, id.0)
    }

    pub fn find(&self, text: &str) -> Option<NameId> {
        self.find_hashed(self.hasher.hash_one(text.as_bytes()), text.as_bytes())
    }

    /// All names, in the order of their first occurrence.
    pub fn all(&self) -> impl Iterator<Item = (NameId, &str)> {
        (0..self.ends.len() as u32).map(|id| (NameId(id), self.get(NameId(id))))
    }

    /// The number of names, and their total length in bytes.
    pub(crate) fn size(&self) -> [usize; 2] {
        [self.ends.len(), self.texts.len()]
    }
}

/// Replaces unprintable characters. Otherwise a name could fake a line of a message or a file, or reverse the direction
/// of the text after it (Unicode Standard Annex 9).
pub(crate) fn printable(text: &str) -> String {
    text.replace(is_unprintable, " ")
}

fn is_unprintable(c: char) -> bool {
    let turns = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')
}

fn text_of<'a>(texts: &'a str, ends: &[usize], id: u32) -> &'a str {
    let place = id as usize;
    let begin = place.checked_sub(1).map_or(0, |before| ends[before]);
    &texts[begin..ends[place]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_kept_once_and_found_again() {
        let mut names = NameTable::default();
        let texts: Vec<String> = (0..1000).map(|number| format!("{}é{number}", "x".repeat(number % 7))).collect();
        let ids: Vec<NameId> = texts.iter().map(|text| names.intern(text)).collect();
        let empty = names.intern("");
        assert!(texts.iter().zip(&ids).all(|(text, id)| names.get(*id) == text && names.intern(text) == *id));
        assert_eq!((names.get(empty), names.find(""), names.find("absent")), ("", Some(empty), None));
        assert_eq!(names.all().count(), 1001);
    }

    #[test]
    fn a_name_is_one_line_that_shows_what_is_in_it() {
        let mut names = NameTable::default();
        let ids = ["a\nb\u{202e}c".as_bytes(), b"a\nb\xffc", "a b c".as_bytes()].map(|name| names.intern(name));
        assert_eq!(ids.map(|id| names.get(id)), ["a b c", "a b\u{fffd}c", "a b c"]);
        assert_eq!(ids[0], ids[2]);
    }
}

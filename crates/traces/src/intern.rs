//! Names, each kept once.

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::hash::BuildHasher;

/// A name of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NameId(pub(crate) u32);

/// The names of a trace, each kept once: a trace may have a million that differ, as those with addresses in them do, and each by itself in
/// memory would take a hundred bytes beside its letters.
#[derive(Debug, Clone, Default)]
pub struct Names {
    /// All of them, one behind the other.
    texts: String,
    /// Where each ends.
    ends: Vec<usize>,
    /// Their places, by what they hash to.
    ids: HashTable<u32>,
    hasher: FixedState,
}

impl NameId {
    /// Its place in [`Names::all`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl Names {
    /// The id of a name, new or known.
    pub fn intern(&mut self, text: &str) -> NameId {
        let hash = self.hasher.hash_one(text.as_bytes());
        self.known(hash, text.as_bytes()).unwrap_or_else(|| self.add(hash, text))
    }

    /// The id of a name that may not be text: what is none in it is replaced. One that is known is text, and not looked at for it.
    pub(crate) fn intern_bytes(&mut self, bytes: &[u8]) -> NameId {
        let hash = self.hasher.hash_one(bytes);
        if let Some(id) = self.known(hash, bytes) {
            return id;
        }
        match str::from_utf8(bytes) {
            Ok(text) => self.add(hash, text),
            Err(_) => self.intern(&String::from_utf8_lossy(bytes)),
        }
    }

    fn known(&self, hash: u64, bytes: &[u8]) -> Option<NameId> {
        let same = |id: &u32| self.get(NameId(*id)).as_bytes() == bytes;
        self.ids.find(hash, same).copied().map(NameId)
    }

    fn add(&mut self, hash: u64, text: &str) -> NameId {
        let id = self.ends.len() as u32;
        self.texts.push_str(text);
        self.ends.push(self.texts.len());
        let Names { texts, ends, ids, hasher } = self;
        ids.insert_unique(hash, id, |id| hasher.hash_one(text_of(texts, ends, *id).as_bytes()));
        NameId(id)
    }

    /// The text of a name.
    pub fn get(&self, id: NameId) -> &str {
        text_of(&self.texts, &self.ends, id.0)
    }

    /// The id of a name that the trace has.
    pub fn find(&self, text: &str) -> Option<NameId> {
        self.known(self.hasher.hash_one(text.as_bytes()), text.as_bytes())
    }

    /// All of them, in the order they first came.
    pub fn all(&self) -> impl Iterator<Item = (NameId, &str)> {
        (0..self.ends.len() as u32).map(|id| (NameId(id), self.get(NameId(id))))
    }

    /// How many there are, and the bytes of all together.
    pub(crate) fn size(&self) -> [usize; 2] {
        [self.ends.len(), self.texts.len()]
    }
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
        let mut names = Names::default();
        let texts: Vec<String> = (0..1000).map(|number| format!("{}é{number}", "x".repeat(number % 7))).collect();
        let ids: Vec<NameId> = texts.iter().map(|text| names.intern(text)).collect();
        let empty = names.intern("");
        assert!(texts.iter().zip(&ids).all(|(text, id)| names.get(*id) == text && names.intern(text) == *id));
        assert_eq!((names.get(empty), names.find(""), names.find("absent")), ("", Some(empty), None));
        assert_eq!(names.all().count(), 1001);
    }
}

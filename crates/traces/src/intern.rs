//! Names, each kept once.

use foldhash::fast::FixedState;
use std::collections::HashMap;
use std::sync::Arc;

/// A name of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NameId(pub(crate) u32);

/// The names of a trace, each kept once.
#[derive(Debug, Clone, Default)]
pub struct Names {
    texts: Vec<Arc<str>>,
    ids: HashMap<Arc<str>, u32, FixedState>,
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
        if let Some(&id) = self.ids.get(text) {
            return NameId(id);
        }
        let (id, text): (u32, Arc<str>) = (self.texts.len() as u32, text.into());
        self.texts.push(text.clone());
        self.ids.insert(text, id);
        NameId(id)
    }

    /// The text of a name.
    pub fn get(&self, id: NameId) -> &str {
        &self.texts[id.index()]
    }

    /// The id of a name that the trace has.
    pub fn find(&self, text: &str) -> Option<NameId> {
        self.ids.get(text).copied().map(NameId)
    }

    /// All of them, in the order they first came.
    pub fn all(&self) -> impl Iterator<Item = (NameId, &str)> {
        self.texts.iter().enumerate().map(|(id, text)| (NameId(id as u32), &**text))
    }
}

//! Names of operations together with the operations around them, each path stored once.

use perf4sight_traces::{NameId, NameTable};
use std::collections::HashMap;

/// A name inside the names around it: `aten::mm` in `aten::linear` in `DistributedDataParallel.forward`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(u32);

/// A name, and the call around it.
type CallRow = (NameId, Option<CallId>);

/// All calls of a graph, in the order in which they were added.
#[derive(Debug, Clone, Default)]
pub struct CallTable {
    names: NameTable,
    rows: Vec<CallRow>,
    ids: HashMap<CallRow, CallId>,
}

impl CallId {
    /// Its index in [`CallTable::all`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl CallTable {
    /// The id of a name inside another call; it is added if it is new.
    pub fn intern(&mut self, name: &str, around: Option<CallId>) -> CallId {
        let row = (self.names.intern(name), around);
        let next = CallId(self.rows.len() as u32);
        let id = *self.ids.entry(row).or_insert(next);
        if id == next {
            self.rows.push(row);
        }
        id
    }

    /// The name of a call.
    pub fn name(&self, id: CallId) -> &str {
        self.names.get(self.rows[id.index()].0)
    }

    /// The same as a number, which calls of the same name share.
    pub(crate) fn name_id(&self, id: CallId) -> NameId {
        self.rows[id.index()].0
    }

    /// The call around a call.
    pub fn caller(&self, id: CallId) -> Option<CallId> {
        self.rows[id.index()].1
    }

    /// The names of a call and of all calls around it, from the innermost to the outermost.
    pub fn path(&self, id: CallId) -> impl Iterator<Item = &str> {
        std::iter::successors(Some(id), |inner| self.caller(*inner)).map(|call| self.name(call))
    }

    /// All calls.
    pub fn all(&self) -> impl Iterator<Item = CallId> + use<> {
        (0..self.rows.len() as u32).map(CallId)
    }

    /// All different names, in the order of their first occurrence.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.all().map(|(_, name)| name)
    }
}

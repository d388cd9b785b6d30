//! Parameters of which something reads a part: learned positions of the longest text, of which a shorter one reads the first.
//!
//! Training changes all of such a table, and the gradient of a part is as large as all of it (`slice_backward`). Where the part consists of whole
//! rows, reading it is looking these up, and it becomes that; else the rest counts nowhere, and is told. Of buffers, such as places that are waves,
//! the rest lies there beside what is read.

use super::schema::ModelProto;
use super::translate::{Filters, Translation};
use super::value::{Value, Weight, elements};
use perf4sight_base::units::grouped;
use perf4sight_network::{Embedding, NodeId, Op, Shape};
use std::collections::BTreeMap;
use std::rc::Rc;

/// What files of ours call the numbers that modules hold and no operation does.
pub(super) const UNREAD: &str = "unread.buffer";

/// The note of our Python module that names buffers.
const BUFFERS: &str = "perf4sight.buffers";

/// A parameter of which something reads a part.
pub(super) struct Partly {
    /// The name it lies under in the file.
    stored: Rc<str>,
    /// Its last axis there.
    last: usize,
    /// All of its elements.
    elements: u64,
    /// What reads a part, and what looks that up where it can be looked up.
    readers: Vec<(NodeId, Option<Embedding>)>,
}

impl Partly {
    /// Nothing of it is read yet.
    pub fn of(weight: &Weight) -> Self {
        let last = weight.dims.len().saturating_sub(1);
        Partly { stored: weight.stored.clone(), last, elements: weight.elements, readers: Vec::new() }
    }

    /// One more reads a part.
    pub fn read(&mut self, node: NodeId, rows: Option<Embedding>) {
        self.readers.push((node, rows));
    }

    /// Makes lookups of all that read it, if they can be: the first has the table, all of whose elements are trained.
    fn looked_up(&self, to: &mut Translation) -> bool {
        let lookups: Option<Vec<_>> = self.readers.iter().map(|(node, rows)| Some((*node, rows.clone()?))).collect();
        let Some(lookups) = lookups else { return false };
        let owner = lookups[0].0;
        for (node, rows) in lookups {
            let name = to.builder.node(node).name.clone();
            to.builder.replace(node, Op::Embedding(rows), &name);
            let is_shared = node != owner && to.builder.share(node, owner).is_ok();
            to.builder.set_trained(node, if is_shared { 0 } else { self.elements });
            to.filters.insert(name, Filters { tensor: self.stored.to_string(), axis: self.last });
        }
        true
    }
}

/// What is read of a tensor that a module holds and nobody trains.
pub(super) struct HeldPartly {
    /// As how many numbers of four bytes all of it lies there.
    pub elements: u64,
    /// How many of them operations hold.
    pub seen: u64,
}

/// The rows of a matrix that a part of it consists of, as `shape` beside one sample; axes of length 1 make no difference.
pub(super) fn rows(whole: &[usize], part: &[usize], shape: &Shape) -> Option<Embedding> {
    let long: Vec<usize> = whole.iter().copied().filter(|dim| *dim != 1).collect();
    let (&[rows, width], Some((last, places))) = (long.as_slice(), shape.dims().split_last()) else { return None };
    let read = elements(part).checked_div(width as u64).filter(|read| *read < rows as u64)?;
    let fits = *last == width && part.last() == Some(&width) && elements(places) == read;
    fits.then(|| Embedding { rows, width, fixed: Some(Shape::new(places)) })
}

/// What a note of our Python module says of the module's buffers: how many numbers each is.
pub(super) fn told(model: &ModelProto) -> BTreeMap<&str, u64> {
    let note = model.metadata_props.iter().find(|note| note.key() == BUFFERS).map_or("", |note| note.value());
    let parted = note.lines().filter_map(|line| line.rsplit_once(' '));
    parted.filter_map(|(name, numbers)| Some((name, numbers.parse().ok()?))).collect()
}

/// How many numbers modules hold that no operation does, and nobody trains; of some it is told.
pub(super) fn unread(to: &Translation, told: &BTreeMap<&str, u64>) -> u64 {
    let left_out = told.iter().filter(|(name, _)| !to.values.contains_key(*name)).map(|(_, numbers)| *numbers);
    // What a layer trains is no buffer.
    let held = to.held.iter().filter(|(tensor, _)| !to.claimed.contains_key(*tensor));
    let beside = held.map(|(_, held)| held.elements.saturating_sub(held.seen));
    let written = match to.values.get(UNREAD) {
        Some(Value::Opaque(table)) if to.ours => elements(&table.dims),
        _ => 0,
    };
    beside.chain(left_out).fold(written, u64::saturating_add)
}

/// Makes lookups of what reads rows of parameters that have more of them; what to tell of the other parameters that are not read whole.
pub(super) fn completed(to: &mut Translation) -> Option<String> {
    let mut told = Vec::new();
    for (tensor, partly) in std::mem::take(&mut to.partly) {
        let read = to.claimed.get(&tensor).copied().unwrap_or(0);
        if read < partly.elements && !partly.looked_up(to) {
            told.push(format!("{} of {} numbers of {tensor}", grouped(read), grouped(partly.elements)));
        }
    }
    (!told.is_empty()).then(|| {
        format!(
            "only {} are read: the others are parameters too, whose memory and updates count nowhere here",
            told.join(", ")
        )
    })
}

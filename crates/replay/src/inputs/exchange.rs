//! An exchange between ranks that another library than PyTorch's recorded, as events of a trace: one that lasts from when
//! the rank was ready until it had the result, and one for each of its parts.

use perf4sight_traces::intervals::Interval;
use perf4sight_traces::{CollectiveArguments, EventCategory, NewEvent, TraceBuilder};
use std::hash::{DefaultHasher, Hash, Hasher};

/// An exchange, as one rank took part in it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RecordedExchange {
    /// Its name, the same on all ranks: `Comm.1+2`.
    pub name: String,
    /// Who recorded it: `horovod` or `byteps`.
    pub library: &'static str,
    /// Its kind, as that library calls it.
    pub operation: String,
    /// The number of its step.
    pub step: usize,
    /// From when the rank was ready until it had the result.
    pub time: Interval,
    /// Elements and their type.
    pub size: Option<(u64, String)>,
    /// Its parts: their names and times.
    pub phases: Vec<(String, Interval)>,
}

impl RecordedExchange {
    /// Adds it to a trace; returns the number of its event.
    pub fn add(&self, builder: &mut TraceBuilder) -> Option<u32> {
        let track = [self.library, "exchanges"];
        let mut hasher = DefaultHasher::new();
        (&self.name, self.step).hash(&mut hasher);
        let (elements, element_type) = match &self.size {
            Some((elements, kind)) => (Some([*elements; 2]), kind.clone()),
            None => (None, String::new()),
        };
        let collective = CollectiveArguments {
            operation: self.operation.clone(),
            elements,
            element_type,
            group: self.library.to_owned(),
            comms_id: Some(hasher.finish()),
            ..CollectiveArguments::default()
        };
        let name = format!("{}:{}", self.library, self.name);
        let category = EventCategory::Annotation;
        let event =
            builder.add(NewEvent { name: &name, category, track, time: self.time, collective: Some(collective) });
        for (phase, time) in &self.phases {
            let name = format!("{}.{phase}", self.name);
            builder.add(NewEvent { name: &name, category, track, time: *time, collective: None });
        }
        event
    }
}

/// PyTorch's name for a type of elements, by which its size is known: `float` for `float32`.
pub(super) fn element_type(name: &str) -> String {
    match name {
        "float32" => "float",
        "float64" => "double",
        "float16" => "half",
        "int64" => "long",
        "int32" => "int",
        "int16" => "short",
        "uint8" => "byte",
        "int8" => "char",
        other => other,
    }
    .to_owned()
}

//! Which means holds a limit here, and why no better one does.

use super::{Axis, Means};
use perf4sight_base::units::Bytes;
use std::fmt;

/// What limits this place can hold.
#[derive(Debug, Clone, PartialEq)]
pub struct Survey {
    /// CPUs that there are for us: affinity and control groups count.
    pub cpus: f64,
    /// Memory that there is for us.
    pub memory: Bytes,
    /// One for each axis, in the order of [`Axis::ALL`].
    pub axes: Vec<Held>,
}

/// How one axis can be limited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// What is limited.
    pub axis: Axis,
    /// What holds it; none where nothing can.
    pub by: Option<Means>,
    /// What is to be known of it, such as the device whose bandwidth is limited.
    pub remark: Option<String>,
    /// Better means, and why they do not work.
    pub refused: Vec<Refused>,
}

/// A means that does not work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Which one.
    pub means: Means,
    /// Why.
    pub reason: String,
}

impl Survey {
    /// What holds a limit; none where nothing can.
    pub fn by(&self, axis: Axis) -> Option<Means> {
        self.held(axis).and_then(|held| held.by)
    }

    /// How an axis can be limited.
    pub fn held(&self, axis: Axis) -> Option<&Held> {
        self.axes.iter().find(|held| held.axis == axis)
    }
}

impl fmt::Display for Survey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.axes.iter().map(Held::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.axis)?;
        match self.by {
            Some(means) => write!(f, "{means}")?,
            None => write!(f, "cannot be limited")?,
        }
        if let Some(remark) = &self.remark {
            write!(f, " ({remark})")?;
        }
        self.refused.iter().try_for_each(|refused| write!(f, "\n  not {}: {}", refused.means, refused.reason))
    }
}

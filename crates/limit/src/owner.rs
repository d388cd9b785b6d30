//! Names that tell whose something is: a process is known by its id, the name space of the id and the time it was started.

use std::fs;

/// What all names begin with.
const PREFIX: &str = "perf4sight";

/// Whose something is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owner {
    space: String,
    process: u32,
    started: u64,
}

impl Owner {
    /// This process.
    pub fn own() -> Self {
        let process = std::process::id();
        Owner { space: space(), process, started: started(process).unwrap_or(0) }
    }

    /// The name of this owner's number so and so.
    pub fn name(&self, number: u64) -> String {
        let Owner { space, process, started } = self;
        format!("{PREFIX}.{space}.{process}.{started}.{number}")
    }

    /// The owner of something with this name; none where it is nobody's of ours.
    pub fn of(name: &str) -> Option<Self> {
        let mut parts = name.split('.');
        if parts.next()? != PREFIX {
            return None;
        }
        let (space, process, started) =
            (parts.next()?.to_owned(), parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        Some(Owner { space, process, started })
    }

    /// Whether it is known to be dead: of the processes of other name spaces, such as containers, nothing is known.
    pub fn is_dead(&self) -> bool {
        self.space == space() && started(self.process) != Some(self.started)
    }
}

/// The name space of process ids: `pid:[4026531836]`.
fn space() -> String {
    let link = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    link.to_string_lossy().chars().filter(char::is_ascii_digit).collect()
}

/// When a process was started, in ticks since the machine was.
fn started(process: u32) -> Option<u64> {
    super::processes::Entry::read(process as i32).filter(|entry| !entry.is_over()).map(|entry| entry.started)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn we_live_and_nobody_else_with_our_number_does() {
        let own = Owner::own();
        assert_eq!(Owner::of(&own.name(7)).as_ref(), Some(&own));
        assert!(!own.is_dead());
        assert!(Owner { started: own.started + 1, ..own.clone() }.is_dead(), "the number was given again");
        assert!(!Owner { space: "1".to_owned(), started: 1, ..own }.is_dead(), "in another container");
        assert_eq!(Owner::of("user.slice"), None);
    }
}

//! Names that identify the process that owns a resource: by its id, the id's namespace and its start time.

use std::fs;

const PREFIX: &str = "perf4sight";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owner {
    space: String,
    process: u32,
    started: u64,
}

impl Owner {
    pub fn own() -> Self {
        let process = std::process::id();
        Owner { space: space(), process, started: started(process).unwrap_or(0) }
    }

    /// The name of this owner's resource with a number.
    pub fn name(&self, number: u64) -> String {
        let Owner { space, process, started } = self;
        format!("{PREFIX}.{space}.{process}.{started}.{number}")
    }

    /// The owner in a name; none where the name is not one of ours.
    pub fn of(name: &str) -> Option<Self> {
        let mut parts = name.split('.');
        if parts.next()? != PREFIX {
            return None;
        }
        let (space, process, started) =
            (parts.next()?.to_owned(), parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        Some(Owner { space, process, started })
    }

    /// Whether it is known to be dead: processes of other namespaces, such as containers, are not visible.
    pub fn is_dead(&self) -> bool {
        self.space == space() && started(self.process) != Some(self.started)
    }
}

/// The namespace of process ids: `pid:[4026531836]`.
fn space() -> String {
    let link = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    link.to_string_lossy().chars().filter(char::is_ascii_digit).collect()
}

/// The start time of a process, in ticks since boot.
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

//! Names that identify the process that owns a resource: by its id, the id's namespace and its start time.

use std::fs;

const PREFIX: &str = "perf4sight";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ResourceOwner {
    pid_namespace: String,
    process: u32,
    start_time: u64,
}

impl ResourceOwner {
    pub fn this_process() -> Self {
        let process = std::process::id();
        ResourceOwner { pid_namespace: pid_namespace(), process, start_time: start_time(process).unwrap_or(0) }
    }

    /// The name of this owner's resource with a number.
    pub fn name(&self, number: u64) -> String {
        let ResourceOwner { pid_namespace, process, start_time } = self;
        format!("{PREFIX}.{pid_namespace}.{process}.{start_time}.{number}")
    }

    /// Parses the owner from the name of a resource; none where the name is not one of ours.
    pub fn parse_name(name: &str) -> Option<Self> {
        let mut parts = name.split('.');
        if parts.next()? != PREFIX {
            return None;
        }
        let (pid_namespace, process, start_time) =
            (parts.next()?.to_owned(), parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        Some(ResourceOwner { pid_namespace, process, start_time })
    }

    /// Whether it is known to be dead: processes of other namespaces, such as containers, are not visible.
    pub fn is_dead(&self) -> bool {
        self.pid_namespace == pid_namespace() && start_time(self.process) != Some(self.start_time)
    }
}

/// The namespace of process ids: `pid:[4026531836]`.
fn pid_namespace() -> String {
    let link = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    link.to_string_lossy().chars().filter(char::is_ascii_digit).collect()
}

/// The start time of a process, in ticks since boot.
fn start_time(process: u32) -> Option<u64> {
    super::processes::ProcessEntry::read(process as i32).filter(|entry| !entry.is_over()).map(|entry| entry.started)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn we_live_and_nobody_else_with_our_number_does() {
        let own = ResourceOwner::this_process();
        assert_eq!(ResourceOwner::parse_name(&own.name(7)).as_ref(), Some(&own));
        assert!(!own.is_dead());
        assert!(
            ResourceOwner { start_time: own.start_time + 1, ..own.clone() }.is_dead(),
            "the number was given again"
        );
        assert!(
            !ResourceOwner { pid_namespace: "1".to_owned(), start_time: 1, ..own }.is_dead(),
            "in another container"
        );
        assert_eq!(ResourceOwner::parse_name("user.slice"), None);
    }
}

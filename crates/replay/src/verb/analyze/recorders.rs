//! Compares what the arguments say of the traces with what the files show.

use crate::inputs::{Recorders, recorders};
use perf4sight_base::error::Result;
use perf4sight_verb::config::SettingValues;
use perf4sight_verb::{Context, Summary, Verb};
use std::path::PathBuf;

/// A verb that first warns of arguments that contradict the files, which are read as what they are.
pub(super) struct ComparedClaims {
    pub verb: Box<dyn Verb>,
    pub traces: Vec<PathBuf>,
    /// `--platform` and `--comm_backend`, if they are given.
    pub claims: [Option<String>; 2],
}

/// What the arguments say.
///
/// # Errors
/// Values that cannot be read.
pub(super) fn argument_claims(values: &SettingValues<'_>) -> Result<[Option<String>; 2]> {
    let claim = |key| values.writes(key).then(|| values.get::<String>(key)).transpose();
    Ok([claim("platform")?, claim("comm_backend")?])
}

impl Verb for ComparedClaims {
    fn run(&self, context: &mut Context) -> Result<Summary> {
        let [platform, backend] = self.claims.each_ref().map(|claim| claim.as_deref().unwrap_or_default());
        contradictions(platform, backend, recorders(&self.traces))
            .into_iter()
            .for_each(|warning| context.warn(warning));
        self.verb.run(context)
    }
}

/// Warnings in sentences; an argument that is not given is empty.
fn contradictions(platform: &str, backend: &str, files: Recorders) -> Vec<String> {
    let told = |argument: &str, value: &str, shown: &str| {
        format!("--{argument} {value} is not what the files show: {shown} wrote them, and they are read as such")
    };
    let of_platform = matches!(platform, "TENSORFLOW" | "MXNET") && files.pytorch;
    let of_backend = match backend {
        "NCCL" if files.byteps && !files.horovod => Some("BytePS"),
        "BYTEPS" if files.horovod && !files.byteps => Some("Horovod"),
        "BYTEPS" if files.pytorch && !files.byteps => Some("PyTorch"),
        _ => None,
    };
    let platform = of_platform.then(|| told("platform", platform, "PyTorch"));
    platform.into_iter().chain(of_backend.map(|shown| told("comm_backend", backend, shown))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_that_contradict_the_files_are_named() {
        let pytorch = Recorders { pytorch: true, ..Recorders::default() };
        let byteps = Recorders { byteps: true, ..Recorders::default() };
        let horovod = Recorders { horovod: true, ..Recorders::default() };
        let one = |platform, backend, files| contradictions(platform, backend, files).join("\n");
        assert!(one("TENSORFLOW", "", pytorch).contains("--platform TENSORFLOW is not what the files show: PyTorch"));
        assert!(one("", "NCCL", byteps).contains("--comm_backend NCCL is not what the files show: BytePS"));
        assert!(one("", "BYTEPS", horovod).contains("Horovod"));
        assert!(one("", "BYTEPS", pytorch).contains("--comm_backend BYTEPS is not what the files show: PyTorch"));
        for (platform, backend, files) in [
            ("PYTORCH", "NCCL", pytorch),
            ("TENSORFLOW", "NCCL", horovod),
            ("MXNET", "BYTEPS", byteps),
            ("", "", pytorch),
        ] {
            assert_eq!(one(platform, backend, files), "");
        }
    }
}

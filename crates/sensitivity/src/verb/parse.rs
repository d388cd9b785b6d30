//! Parses and checks the values of `[sensitivity]`.

use super::command::PassedOption;
use super::compare::CompareVerb;
use super::show::ShowVerb;
use super::{NodeSettings, RegexPattern, Sensitivity};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::units::Bytes;
use perf4sight_verb::Verb;
use perf4sight_verb::config::SettingValues;
use std::path::PathBuf;

/// Parses the command line: measures a job, or shows or compares a profile.
pub(super) fn verb(values: &SettingValues<'_>) -> Result<Box<dyn Verb>> {
    let Some(profile) = values.get::<Option<PathBuf>>("profile")? else {
        return Ok(Box::new(Sensitivity::parse(values)?));
    };
    if profile.extension().is_some_and(|ending| ending == "py") {
        let script = profile.display();
        return Err(values
            .error("profile", format!("{script} is not a profile"))
            .expected("a profile.json, or a job behind two dashes")
            .help(format!("perf4sight sensitivity -- python3 {script}")));
    }
    if profile.is_dir() {
        let inside = profile.join("profile.json");
        return Err(values
            .error("profile", format!("{} is a folder", profile.display()))
            .expected("a profile.json, such as of the folder of out")
            .help(format!("perf4sight sensitivity {}", inside.display())));
    }
    Ok(match values.get("compare")? {
        Some(measured) => Box::new(CompareVerb { measured, profile }),
        None => Box::new(ShowVerb { profile }),
    })
}

impl Sensitivity {
    pub(super) fn parse(values: &SettingValues<'_>) -> Result<Self> {
        Ok(Sensitivity {
            command: values.command("command")?,
            out: values.get("out")?,
            overwrite: values.get("overwrite")?,
            job_name: values.get("job_name")?,
            cpu: values.get("cpu")?,
            cpu_step: values.get("cpu_step")?,
            memory: values.get("memory")?,
            num_gpus: values.get("num_gpus")?,
            batch: values.get("batch")?,
            workers: values.get("workers")?,
            max_iterations: values.get("max_iterations")?,
            data: values.get("data")?,
            pass: parse_passed(values)?,
            samples: values.get("samples")?,
            step_pattern: values.named_if_set("step_pattern", RegexPattern::parse)?,
            iterations: values.get("iterations")?,
            warm_up: values.get("warm_up")?,
            point_time: values.get("point_time")?,
            budget: values.get("budget")?,
            memory_bandwidth: values.named_if_set("memory_bandwidth", bandwidth)?,
            storage_bandwidth: values.named_if_set("storage_bandwidth", bandwidth)?,
            docker_img: values.get("docker_img")?,
            container_mnt: values.get("container_mnt")?,
            nodes: nodes(values)?,
            dry_run: values.get("dry_run")?,
        })
    }
}

fn nodes(values: &SettingValues<'_>) -> Result<Option<NodeSettings>> {
    let (count, rank) = (values.get("nnodes")?, values.get("node_rank")?);
    let (master_addr, master_port) = (values.get("master_addr")?, values.get("master_port")?);
    let nodes = NodeSettings {
        count,
        rank,
        master_addr,
        master_port,
        port: values.get("node_port")?,
        wait: values.get("node_wait")?,
    };
    Ok(nodes.if_several())
}

fn parse_passed(values: &SettingValues<'_>) -> Result<Option<Vec<PassedOption>>> {
    match values.get::<Option<Vec<String>>>("pass")? {
        None => Ok(None),
        Some(_) => Ok(Some(values.parse_words("pass", PassedOption::parse)?.into_iter().flatten().collect())),
    }
}

/// Parses bytes a second.
///
/// # Errors
/// Text without a unit: MB and MiB are too similar to guess.
fn bandwidth(text: &str) -> Result<Bytes> {
    let amount = text.trim().strip_suffix("/s").unwrap_or(text.trim());
    let named = amount.ends_with(['B', 'b']);
    named.then(|| Bytes::parse(amount)).flatten().ok_or_else(|| {
        Error::usage(format!("\"{text}\" is not a bandwidth"))
            .expected("bytes in a second with their unit, such as 500MB or 2GB/s")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bandwidths_have_units() {
        assert_eq!(bandwidth("500MB/s").ok(), Some(Bytes(500_000_000)));
        for wrong in ["0", "-1", "much", "inf", "nan"] {
            assert!(bandwidth(wrong).is_err(), "{wrong}");
        }
        assert!(bandwidth("500").is_err());
    }
}

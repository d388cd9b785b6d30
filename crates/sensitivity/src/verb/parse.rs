//! The values of `[sensitivity]`, checked.

use super::command::Passed;
use super::{Nodes, Pattern, Sensitivity};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::units::Bytes;
use perf4sight_verb::config::Values;
use perf4sight_verb::time::time;

/// Decimal gigabytes: the unit of memory that was published.
const GB: f64 = 1e9;

impl Sensitivity {
    pub(super) fn parse(values: &Values<'_>) -> Result<Self> {
        Ok(Sensitivity {
            command: values.command("command")?,
            out: values.get("out")?,
            overwrite: values.get("overwrite")?,
            job_name: values.get("job_name")?,
            cpu: values.get("cpu")?,
            cpu_step: values.get("cpu_step")?,
            memory: values.named_if_set("memory", memory)?,
            num_gpus: values.get("num_gpus")?,
            batch: values.get("batch")?,
            workers: values.get("workers")?,
            max_iterations: values.get("max_iterations")?,
            data: values.get("data")?,
            pass: passed(values)?,
            samples: values.get("samples")?,
            step_pattern: values.named_if_set("step_pattern", Pattern::parse)?,
            iterations: values.get("iterations")?,
            warm_up: values.get("warm_up")?,
            point_time: values.named("point_time", time)?,
            budget: values.named_if_set("budget", time)?,
            memory_bandwidth: values.named_if_set("memory_bandwidth", bandwidth)?,
            storage_bandwidth: values.named_if_set("storage_bandwidth", bandwidth)?,
            docker_img: values.get("docker_img")?,
            container_mnt: values.get("container_mnt")?,
            nodes: nodes(values)?,
            dry_run: false,
        })
    }
}

fn nodes(values: &Values<'_>) -> Result<Option<Nodes>> {
    let (count, rank) = (values.get("nnodes")?, values.get("node_rank")?);
    let (master_addr, master_port) = (values.get("master_addr")?, values.get("master_port")?);
    let nodes = Nodes {
        count,
        rank,
        master_addr,
        master_port,
        port: values.get("node_port")?,
        wait: values.named("node_wait", time)?,
    };
    Ok(nodes.if_several())
}

fn passed(values: &Values<'_>) -> Result<Option<Vec<Passed>>> {
    match values.get::<Option<Vec<String>>>("pass")? {
        None => Ok(None),
        Some(_) => Ok(Some(values.each("pass", Passed::parse)?.into_iter().flatten().collect())),
    }
}

/// An amount of memory; a number alone is in GB, as published.
///
/// # Errors
/// Whatever else.
pub fn memory(text: &str) -> Result<Bytes> {
    let gigabytes = text.trim().parse::<f64>().ok().filter(|number| (1e-3..1e9).contains(number));
    let bytes = gigabytes.map(|number| Bytes((number * GB) as u64)).or_else(|| match text.trim().parse::<f64>() {
        Ok(_) => None,
        Err(_) => Bytes::parse(text),
    });
    bytes.ok_or_else(|| {
        Error::usage(format!("\"{text}\" is no amount of memory")).expected("such as 64GiB; a number alone is GB")
    })
}

/// Bytes a second.
///
/// # Errors
/// What names no unit: MB and MiB are too alike to be guessed.
pub fn bandwidth(text: &str) -> Result<Bytes> {
    let amount = text.trim().strip_suffix("/s").unwrap_or(text.trim());
    let named = amount.ends_with(['B', 'b']);
    named.then(|| Bytes::parse(amount)).flatten().ok_or_else(|| {
        Error::usage(format!("\"{text}\" is no bandwidth"))
            .expected("bytes in a second with their unit, such as 500MB or 2GB/s")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_alone_is_in_gigabytes_and_bandwidths_have_units() {
        assert_eq!(memory("64").ok(), Some(Bytes(64_000_000_000)));
        assert_eq!(memory("64GiB").ok(), Some(Bytes(64 << 30)));
        assert_eq!(bandwidth("500MB/s").ok(), Some(Bytes(500_000_000)));
        for wrong in ["0", "-1", "much", "inf", "nan"] {
            assert!(memory(wrong).is_err() && bandwidth(wrong).is_err(), "{wrong}");
        }
        assert!(bandwidth("500").is_err());
    }
}

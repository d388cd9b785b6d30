//! The checked values of the section.

use super::calibration;
use super::choice::{self, PlanChoice};
use super::planned::RunOrder;
use super::{Profile, ProfilePaths};
use crate::device;
use crate::device::kind::DeviceKind;
use crate::records::check_cell;
use crate::verbs::named::check_own_name;
use crate::verbs::{images, step};
use perf4sight_base::error::Result;
use perf4sight_machine::ResourceLimits;
use perf4sight_machine::remote::{SshHost, SshRoute};
use perf4sight_step::workload::{Stage, Step, Variable};
use perf4sight_verb::config::SettingValues;
use std::path::PathBuf;

impl Profile {
    pub(super) fn parse(values: &SettingValues<'_>) -> Result<Self> {
        let networks: Vec<String> = distinct(values, "network", values.get("network")?)?;
        check_names(&networks).map_err(|error| values.with_place("network", error))?;
        let run_profiling: bool = values.get("run_profiling")?;
        let device = device(values)?;
        if run_profiling {
            device.check_runnable().map_err(|error| values.with_place("device", error))?;
        }
        let create_config: bool = values.get("create_config")?;
        if !create_config && !run_profiling {
            return Err(values
                .error("run_profiling", "there is nothing to do, for create_config is False too")
                .expected("create_config = True, run_profiling = True or both"));
        }
        let till_first_fail: bool = values.get("till_first_fail")?;
        let seed: u64 = values.get("seed")?;
        let choice = PlanChoice::parse(values)?;
        let variables = variables(values)?;
        let (batches, steps) = (distinct(values, "bs", values.get("bs")?)?, steps(values)?);
        steps.iter().try_for_each(|&step| step::check_batches(values, step, &batches))?;
        // A plan that chooses the order itself gets the configurations in a fixed order.
        let shuffled = (choice == PlanChoice::Grid && !till_first_fail).then_some(seed);
        Ok(Profile {
            create_config,
            run_profiling,
            dataset: dataset(values)?,
            teach: calibration::parse(values, &variables)?,
            variables,
            batches,
            steps,
            networks,
            places: parse_paths(values)?,
            device,
            choice,
            budget: choice::budget(values)?,
            device_name: parse_folder_word(values, "device_name")?,
            save: values.get("save")?,
            till_first_fail,
            order: RunOrder { rounds: values.get("repeats")?, shuffled },
        })
    }
}

/// All names that would make rows unreadable are reported together.
fn check_names(networks: &[String]) -> Result<()> {
    let refused = |name: &String| check_own_name(name).err().map(|error| (name.clone(), error));
    let mut refused = networks.iter().filter_map(refused);
    let Some((_, first)) = refused.next() else { return Ok(()) };
    let others: Vec<String> = refused.map(|(name, _)| name).collect();
    match first.remedy() {
        Some(remedy) if !others.is_empty() => {
            let help = format!("{remedy}; refused too: {}", others.join(", "));
            Err(first.help(help))
        }
        _ => Err(first),
    }
}

/// Layers are timed between plain steps, and the latency row of a configuration records whether it failed.
fn variables(values: &SettingValues<'_>) -> Result<Vec<Variable>> {
    let variables = distinct(values, "profile_variables", values.parse_words("profile_variables", Variable::parse)?)?;
    match variables.contains(&Variable::Layers) && !variables.contains(&Variable::Latency) {
        true => Err(values.error("profile_variables", "layers without latency").expected("latency with layers")),
        false => Ok(variables),
    }
}

/// The published step of each requested stage, with the requested changes.
fn steps(values: &SettingValues<'_>) -> Result<Vec<Step>> {
    let stages = values.parse_words("stage", Stage::parse)?;
    let changes = step::changes(values, &stages)?;
    distinct(values, "stage", stages.into_iter().map(|stage| changes.of(Step::published(stage))).collect())
}

pub(super) fn device(values: &SettingValues<'_>) -> Result<device::DeviceOptions> {
    Ok(device::DeviceOptions {
        kind: DeviceKind::parse(&values.get::<String>("device")?).map_err(|error| values.located("device", error))?,
        source: values.get("device_source")?,
        worker: values.command("worker")?,
        routes: routes(values)?,
        gpu: device::GpuOptions {
            index: values.get("gpu_id")?,
            libtorch_cuda: values.get("libtorch_cuda")?,
            tf32: values.get("tf32")?,
            cudnn_benchmark: values.get("cudnn_benchmark")?,
        },
        threads: values.get("threads")?,
        mem_limit: values.get("mem_limit")?,
        limits: ResourceLimits { cpus: values.get("cpus")?, memory: values.get("kernel_mem_limit")?, storage: None },
        timeout: values.seconds("timeout")?,
        seed: values.get("seed")?,
    })
}

/// The machines of `host` or `hosts`.
fn routes(values: &SettingValues<'_>) -> Result<Vec<SshRoute>> {
    let host = values.named_if_set("host", SshHost::parse)?;
    let hosts = match values.get::<Option<Vec<String>>>("hosts")? {
        Some(_) if host.is_some() => {
            return Err(values
                .error("hosts", "host and hosts at once")
                .help("name all machines in hosts, and leave host out"));
        }
        Some(_) => distinct(values, "hosts", values.parse_words("hosts", SshHost::parse)?)?,
        None => host.into_iter().collect(),
    };
    let config: Option<PathBuf> = values.get("ssh_config")?;
    let patience = values.seconds("reconnect")?;
    Ok(hosts.into_iter().map(|host| SshRoute { host, config: config.clone(), patience }).collect())
}

fn parse_paths(values: &SettingValues<'_>) -> Result<ProfilePaths> {
    for key in ["local_model_loc", "device_model_loc"] {
        check_cell(&values.get::<String>(key)?).map_err(|error| values.with_place(key, error))?;
    }
    Ok(ProfilePaths {
        networks: values.get("local_model_loc")?,
        networks_on_device: values.get("device_model_loc")?,
        log_dir: values.get("log_dir")?,
        test_config: values.get("test_config")?,
    })
}

/// The images that the networks read, as in the names of folders and in rows.
fn dataset(values: &SettingValues<'_>) -> Result<String> {
    parse_folder_word(values, "dataset")?;
    images::word(values)
}

/// A word that names a folder, and appears in the rows.
fn parse_folder_word(values: &SettingValues<'_>, key: &str) -> Result<String> {
    check_cell(&values.get::<String>(key)?).map_err(|error| values.with_place(key, error))?;
    values.folder_name(key)
}

fn distinct<T: PartialEq + std::fmt::Display>(values: &SettingValues<'_>, key: &str, list: Vec<T>) -> Result<Vec<T>> {
    match list.iter().enumerate().find(|(at, item)| list[..*at].contains(item)) {
        Some((_, twice)) => Err(values.error(key, format!("{twice} is there twice")).help("write it once")),
        None => Ok(list),
    }
}

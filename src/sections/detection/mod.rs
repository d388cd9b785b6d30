//! `perf4sight detection`: what training a detector takes on this machine, part by part, and which setting suits it.

mod measure;
mod tables;
mod timing;

pub use perf4sight_step::detection::{Boxes, DetectionTask};

use crate::error::{Error, Result};
use crate::frame::{Context, Summary, Verb};
use crate::machine::Watch;
use crate::units::{Bytes, Percent, counted};
use perf4sight_step::detection::{Measured, Memory, Reply};
use serde_json::json;
use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Duration;
use timing::Timing;

/// What is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct Detection {
    /// The Python that has PyTorch and torchvision.
    pub python: String,
    /// What is trained on: `cpu`, or `cuda:` and a number.
    pub place: String,
    /// Threads of the compute library.
    pub threads: usize,
    /// Memory past which a step does not fit.
    pub mem_limit: Option<Bytes>,
    /// Seed of weights and of the order of images.
    pub seed: u64,
    /// Time after which a setting counts as hung.
    pub timeout: Duration,
    /// What every setting has; its batch, workers and prefetching are those of `settings`.
    pub task: DetectionTask,
    /// What is tried.
    pub settings: Vec<Setting>,
}

/// What a sweep changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// Images of a step.
    pub batch: u64,
    /// Processes that load data.
    pub num_workers: u64,
    /// Batches that each of them loads ahead.
    pub prefetch_factor: u64,
}

/// One setting, and what became of it.
struct Tried {
    setting: Setting,
    became: Became,
}

enum Became {
    Ran(Box<Ran>),
    OutOfMemory(Memory),
    Failed(String),
}

/// Steps that ran.
struct Ran {
    measured: Measured,
    timing: Timing,
    /// Why its times are not those of a training that learns.
    doubt: Option<String>,
}

impl Ran {
    /// The faster one is the greater, and a doubtful one less than any other.
    fn compare((_, one): &(Setting, &Ran), (_, other): &(Setting, &Ran)) -> Ordering {
        let doubts = other.doubt.is_some().cmp(&one.doubt.is_some());
        doubts.then(one.timing.rate.total_cmp(&other.timing.rate))
    }
}

impl Setting {
    /// All combinations, each once: where nobody loads ahead it does not matter how far.
    pub fn all(batches: &[u64], workers: &[u64], prefetch: &[u64]) -> Vec<Setting> {
        let mut settings = Vec::new();
        for &batch in batches {
            for &num_workers in workers {
                for &prefetch_factor in if num_workers == 0 { &prefetch[..prefetch.len().min(1)] } else { prefetch } {
                    let setting = Setting { batch, num_workers, prefetch_factor };
                    if !settings.contains(&setting) {
                        settings.push(setting);
                    }
                }
            }
        }
        settings
    }
}

impl Verb for Detection {
    /// Measures every setting in a process of its own, and tells what is best.
    ///
    /// # Errors
    /// Data that do not lie there; a Python that cannot be started; no setting that ran.
    fn run(&self, context: &mut Context) -> Result<Summary> {
        self.check_data()?;
        let cancel = Arc::clone(&context.cancel);
        let mut tried = Vec::new();
        let progress = context.console.progress(self.settings.len() as u64, "measuring");
        for &setting in &self.settings {
            progress.doing(tables::words(setting));
            let watch = Watch { waiting: &|why| context.console.note(why), ..Watch::quiet(&cancel) };
            let Some(reply) = measure::measure(self, setting, &watch)? else { break };
            tried.push(Tried { setting, became: became(reply, setting) });
            progress.advance(1);
        }
        drop(progress);
        tried.iter().for_each(|one| one.warn(context));
        self.summary(&tried, context)
    }
}

fn became(reply: Reply, setting: Setting) -> Became {
    match reply {
        Reply::Measured(measured) => match Timing::of(&measured, setting.batch) {
            Some(timing) => {
                Became::Ran(Box::new(Ran { doubt: timing::doubt(&measured.losses), measured: *measured, timing }))
            }
            None => Became::Failed("the worker's answer holds no steps".to_owned()),
        },
        Reply::OutOfMemory { memory } => Became::OutOfMemory(memory),
        Reply::Failed { reason } => Became::Failed(reason),
    }
}

impl Tried {
    fn ran(&self) -> Option<&Ran> {
        match &self.became {
            Became::Ran(ran) => Some(ran),
            Became::OutOfMemory(_) | Became::Failed(_) => None,
        }
    }

    /// Says what a table has no place for.
    fn warn(&self, context: &mut Context) {
        let words = tables::words(self.setting);
        match &self.became {
            Became::Failed(reason) => context.warn(format_args!("{words}: {reason}")),
            Became::OutOfMemory(_) => {}
            Became::Ran(ran) => {
                if let Some(doubt) = &ran.doubt {
                    let meaning = "its times are not those of a training that learns (--learning-rate)";
                    context.warn(format_args!("{words}: {doubt}; {meaning}"));
                }
                let damaged = &ran.measured.damaged;
                if let Some((name, why)) = damaged.first_key_value() {
                    let count = counted(damaged.len() as u64, "damaged sample");
                    context.warn(format_args!("{words}: {count} left out; the first: {name}: {why}"));
                }
            }
        }
    }
}

impl Detection {
    /// Refuses a folder that is no data set before Python starts.
    fn check_data(&self) -> Result<()> {
        match ["images", "annotations/trainval.txt"].iter().all(|part| self.task.data.join(part).exists()) {
            true => Ok(()),
            false => Err(Error::input("this is no data set to train detectors with").file(&self.task.data).expected(
                "the layout of Oxford-IIIT Pet: images/*.jpg, annotations/trimaps/*.png, annotations/trainval.txt",
            )),
        }
    }

    fn summary(&self, tried: &[Tried], context: &Context) -> Result<Summary> {
        let ran: Vec<(Setting, &Ran)> = tried.iter().filter_map(|one| Some((one.setting, one.ran()?))).collect();
        let cancelled = context.cancelled();
        let Some((setting, best)) = ran.iter().copied().max_by(Ran::compare) else {
            return self.nothing(tried, cancelled);
        };
        Ok(Summary {
            answer: tables::sentence(setting, best, &ran),
            headline: if cancelled { "interrupted; the settings above ran".to_owned() } else { String::new() },
            tables: vec![tables::settings(tried), tables::parts(setting, best)],
            json: json!({
                "network": self.task.network,
                "place": self.place,
                "size": self.task.size,
                "precision": self.task.precision,
                "optimizer": self.task.optimizer,
                "settings": tables::settings(tried).to_json(),
                "parts": tables::parts(setting, best).to_json(),
                "losses": best.measured.losses,
                "warnings": context.warnings(),
            }),
            ..Summary::default()
        })
    }

    /// What is said where nothing ran.
    fn nothing(&self, tried: &[Tried], cancelled: bool) -> Result<Summary> {
        if cancelled {
            return Ok(Summary { headline: "interrupted; no setting was finished".to_owned(), ..Summary::default() });
        }
        let fails = |one: &&Tried| matches!(one.became, Became::Failed(_));
        match tried.iter().find(fails).map(|one| &one.became) {
            Some(Became::Failed(reason)) => Err(Error::device(format!("no setting ran; the first failed: {reason}"))),
            _ => Err(Error::device(format!("no setting of {} fits into memory", tried.len()))
                .help("smaller batches (--batch-size), smaller images (--size), or fp16 on a GPU (--precision)")),
        }
    }
}

/// "84.0 %".
fn share(share: f64) -> Percent {
    Percent(100.0 * share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefetching_matters_where_somebody_loads_ahead() {
        let all = Setting::all(&[2], &[0, 1], &[2, 4]);
        let pairs: Vec<(u64, u64)> = all.iter().map(|one| (one.num_workers, one.prefetch_factor)).collect();
        assert_eq!(pairs, [(0, 2), (1, 2), (1, 4)]);
    }
}

//! The section divided among machines: its settings as items, each machine with a folder of its own, and the
//! measurements of all of them in one.

use super::store::{self, RowStore, StoredRow};
use super::trainer::DetectorTrainer;
use super::{Detection, DetectionMachine, SettingResult, SweepSetting, TriedSetting};
use perf4sight_base::error::{Error, Result};
use perf4sight_machine::{check_kind, claim};
use perf4sight_verb::{
    Context, CountedNoun, Divisible, Outline, PlannedFiles, Summary, WorkItem, WorkPart, check_keeps_results,
};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What the first machine of a run writes for the others.
const MACHINE_FILE: &str = "setting.json";

/// What a setting usually takes: Python and PyTorch start in seconds, and the published steps take a minute or two on a
/// GPU. The limit of a task is twice its settings' time and ten minutes.
const EXPECTED: Duration = Duration::from_secs(300);

impl Divisible for Detection {
    fn results(&self) -> &Path {
        &self.out
    }

    fn outline_elsewhere(&self, _: &PlannedFiles, _: &Context) -> Result<Outline<'_>> {
        self.check_divisible()?;
        self.build_outline()
    }

    fn noun(&self) -> CountedNoun {
        CountedNoun { one: "setting", several: "settings" }
    }

    fn items(&self, _: &PlannedFiles, _: &mut Context) -> Result<Vec<WorkItem>> {
        self.check_divisible()?;
        let asked = self.with_whole_path();
        let rows = store::read(&self.out)?;
        let tried = asked.tried_settings(&rows);
        let is_open = |setting: &&SweepSetting| !tried.iter().any(|one| one.setting == **setting);
        let item = |setting: &SweepSetting| WorkItem {
            name: setting.file_name(),
            // A batch that does not fit makes larger ones unnecessary.
            group: format!("{} {}", setting.num_workers, setting.prefetch_factor),
            time: EXPECTED,
        };
        Ok(self.settings.iter().filter(is_open).map(item).collect())
    }

    fn run_part(&self, part: &WorkPart<'_>, context: &mut Context) -> Result<Summary> {
        let chosen = |setting: &&SweepSetting| part.items.contains(&setting.file_name());
        let settings: Vec<SweepSetting> = self.settings.iter().filter(chosen).copied().collect();
        if settings.len() < part.items.len() {
            return Err(Error::input("this task has settings that the configuration lacks")
                .help("the node sees other files than the machine that submitted: both need the same folder"));
        }
        let own = Detection { out: part.folder.to_owned(), settings, ..self.with_whole_path() };
        own.check()?;
        let now = own.circumstances(&DetectorTrainer::open(&own)?).setting();
        let known =
            store::read(&self.out)?.into_iter().find(|row| self.is_asked(row)).map(|row| row.circumstances.setting());
        check_kind(&known.map_or_else(|| claim(&part.run.join(MACHINE_FILE), &now), Ok)?, &now)?;
        let (tried, _, headline) = own.try_all(context)?;
        // That nothing fits is a result, too, and the task did its work.
        let all_failed = tried.iter().all(|one| matches!(one.became, SettingResult::Failed(_)));
        match all_failed && !tried.is_empty() {
            true => own.nothing_ran(&tried, false),
            false => Ok(Summary { headline, ..Summary::default() }),
        }
    }

    fn merge(&self, folders: &[PathBuf], _: &mut Context) -> Result<()> {
        let mut store = RowStore::open(&self.out)?;
        for folder in folders {
            store::read(folder)?.into_iter().try_for_each(|row| store.keep(row))?;
        }
        Ok(())
    }

    fn conclude(&self, context: &mut Context) -> Result<Summary> {
        let asked = self.with_whole_path();
        let store = RowStore::open(&self.out)?;
        self.check_replaced(&store.rows)?;
        let Some(row) = store.rows.iter().find(|row| asked.is_asked(row)) else {
            return Ok(Summary { headline: "no setting was measured".to_owned(), ..Summary::default() });
        };
        let machine =
            DetectionMachine { circumstances: row.circumstances.clone(), processors_left: row.processors_left };
        let tried = asked.tried_settings(&store.rows);
        tried.iter().for_each(|one| one.warn(context));
        let headline = format!("{} in {}", self.noun().count_text(tried.len()), self.out.display());
        asked.summary(&tried, &machine, headline, context)
    }
}

impl Detection {
    fn check_divisible(&self) -> Result<()> {
        if self.route.is_some() {
            return Err(Error::config("host and --slurm at once")
                .expected("one of them")
                .help("leave host out: Slurm chooses the machine"));
        }
        check_keeps_results(self.overwrite)
    }

    /// Whether a row is of one of the settings.
    fn is_asked(&self, row: &StoredRow) -> bool {
        self.settings.iter().any(|setting| row.is_of_task(&self.task_of(*setting)))
    }

    /// The settings whose result is known from rows, on one kind of machine.
    fn tried_settings(&self, rows: &[StoredRow]) -> Vec<TriedSetting> {
        let mut tried: Vec<TriedSetting> = Vec::new();
        for &setting in &self.settings {
            let row = rows.iter().find(|row| row.is_of_task(&self.task_of(setting)));
            let became = match row {
                Some(row) => Some(row.to_result(setting)),
                None => tried.iter().any(|one| one.rules_out(setting)).then_some(SettingResult::Spared),
            };
            tried.extend(became.map(|became| TriedSetting { setting, became }));
        }
        tried
    }
}

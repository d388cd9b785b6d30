//! What to change in a recorded job: runs the passes, compares what they propose, and writes the results.

mod divided;
mod files;
mod json;
mod page;
pub mod published;
mod tables;

use crate::passes::{
    ChangeProposal, LearningEffect, OptimizationPass, PASSES, PassResults, PassSettings, candidate_lines, group_lines,
    jointly,
};
use crate::search::SearchSettings;
use crate::start::{CombinedChanges, RecordedStart};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::result_files::ResultFiles;
use perf4sight_base::units::{Bytes, Milliseconds, Percent, list_text};
use perf4sight_replay::Analysis;
use perf4sight_replay::graph::{available_memory, check_memory};
use perf4sight_replay::inputs;
use perf4sight_replay::ranks::TrainingJob;
use perf4sight_replay::request::ReplayRequest;
use perf4sight_replay::what_if::StepChange;
use perf4sight_report::{TableColumn, sentence};
use perf4sight_verb::{Context, Outline, Summary, TableFinding, Verb};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The pass that searches, which takes longer than all others.
const SEARCHING: &str = "op_fusion";

/// The pass whose proposals may take longer.
const MEMORY: &str = "memory";

/// The folder of the searches, in that of the results.
pub const SEARCHES: &str = "searches";

/// What to optimise, and how; [`Verb::run`] does it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptimizeTraces {
    /// Traces of one job: files, or a folder of them.
    pub traces: Vec<PathBuf>,
    /// The names of the passes; all if there are none.
    pub passes: Vec<String>,
    /// What is asked of them.
    pub wanted: PassSettings,
    /// How the job is replayed.
    pub request: ReplayRequest,
    /// The folder of the results.
    pub out: PathBuf,
}

/// What the results show.
struct StrategyResults {
    start: RecordedStart,
    /// What the passes found: first the proposals that bring something, those that learn the same before others, of these the
    /// largest gain first.
    found: PassResults,
    /// The proposals that bring something and learn the same, together.
    together: Option<ChangeProposal>,
    answer: String,
    warnings: Vec<String>,
}

impl Verb for OptimizeTraces {
    /// Reads the traces, runs the passes, and writes the results. After Ctrl-C the passes that ran count.
    ///
    /// # Errors
    /// Files that are no traces of one job, traces that cannot be replayed, a folder that cannot be written to or has
    /// files of other programs.
    fn run(&self, context: &mut Context) -> Result<Summary> {
        self.run_strategy(true, context)
    }
}

impl OptimizeTraces {
    /// As [`Verb::run`]; what is known of searches counts, unless it searches on.
    fn run_strategy(&self, search: bool, context: &mut Context) -> Result<Summary> {
        let passes = self.chosen_passes()?;
        let files = self.files()?;
        let mut left = passes.len() as u64 + 2;
        let progress = context.console.progress(self.total_moves().saturating_add(left), "optimizing").unpaced();
        progress.set_item("reading traces");
        let start = self.start()?;
        progress.advance(1);
        let mut found = PassResults { unanswered: self.unused_settings(&passes), ..PassResults::default() };
        let mut notes = Vec::new();
        for pass in passes {
            if context.cancelled() {
                found.unanswered.push(format!("{} was interrupted", pass.name()));
                continue;
            }
            progress.set_item(pass_text(pass, &start, &self.wanted));
            let cancel = context.cancel.clone();
            let go_on = |moves| {
                progress.pace();
                progress.advance(moves);
                search && !cancel.load(Ordering::Relaxed)
            };
            let own = pass.run(&start, &self.wanted, &go_on)?;
            notes.extend(own.nothing.iter().filter(|_| self.asks_for(pass.name())).cloned());
            found.add(own);
            progress.advance(1);
            left -= 1;
            if pass.name() == SEARCHING {
                // A search that was done before, or has nothing to fuse, evaluates fewer moves.
                progress.expect(left - 1);
            }
        }
        progress.set_item("comparing");
        match jointly(&start, &found) {
            Ok(joint) => found.replace_by(joint),
            Err(error) => {
                found.unanswered.push(format!("operators and tensors are not fused together: {}", error.in_one_line()))
            }
        }
        found.leave_out_slower(self.asks_for_memory());
        let shown = StrategyResults::new(start, found)?;
        progress.advance(1);
        drop(progress);
        notes.iter().for_each(|note| context.console.note(note));
        self.write(files, shown, context)
    }

    fn chosen_passes(&self) -> Result<Vec<&'static dyn OptimizationPass>> {
        let names = || PASSES.iter().map(|pass| pass.name());
        let unknown = self.passes.iter().find(|name| !names().any(|known| known == name.as_str()));
        if let Some(unknown) = unknown {
            return Err(
                Error::usage(format!("there is no pass {unknown}")).one_of(unknown, names().collect::<Vec<_>>())
            );
        }
        let is_chosen = |pass: &&&dyn OptimizationPass| self.passes.is_empty() || self.asks_for(pass.name());
        Ok(PASSES.iter().filter(is_chosen).copied().collect())
    }

    fn asks_for(&self, pass: &str) -> bool {
        self.passes.iter().any(|name| name == pass)
    }

    /// Whether less memory is worth time.
    fn asks_for_memory(&self) -> bool {
        self.asks_for(MEMORY) || self.wanted.settings_of_one_pass().any(|(_, pass)| pass == MEMORY)
    }

    /// A sentence for each setting whose pass is not asked for.
    fn unused_settings(&self, passes: &[&dyn OptimizationPass]) -> Vec<String> {
        let given =
            self.wanted.settings_of_one_pass().filter(|(_, own)| !passes.iter().any(|pass| pass.name() == *own));
        given
            .map(|(setting, pass)| format!("{setting} counts for the pass {pass} alone, which is not asked for"))
            .collect()
    }

    /// Whether operator fusion is searched.
    pub fn searches_something(&self) -> bool {
        self.passes.is_empty() || self.asks_for(SEARCHING)
    }

    /// The moves of all searches.
    fn total_moves(&self) -> u64 {
        let SearchSettings { first, count, .. } = self.wanted.searches;
        if self.searches_something() { first.moves.saturating_mul(count) } else { 0 }
    }

    /// The recorded job, which everything that is asked belongs to.
    fn start(&self) -> Result<RecordedStart> {
        self.request.check()?;
        let job = TrainingJob::read(&self.traces)?;
        if let Some(alone) = job.single_rank_error() {
            return Err(alone.help("add the others: gains of communication would be too large"));
        }
        let analysis = Analysis::new(job);
        analysis.check_one_job()?;
        let start = RecordedStart::new(&analysis, &self.request)?;
        let available = available_memory();
        self.chosen_passes()?.into_iter().try_for_each(|pass| {
            check_pass_memory(pass, pass.memory(&start, &self.wanted), available)?;
            pass.check(&start, &self.wanted)
        })?;
        Ok(start)
    }

    fn files(&self) -> Result<ResultFiles> {
        let clusters = self.wanted.clusters.as_deref();
        // A search writes groups under the same name.
        let (replaced, kept) = if self.searches_something() { (clusters, None) } else { (None, clusters) };
        files::new(&self.out, self.traces.iter().map(PathBuf::as_path).chain(replaced), kept)
    }

    /// What it reads and writes.
    ///
    /// # Errors
    /// A folder that has files of other programs.
    pub fn outline(&self) -> Result<Outline<'_>> {
        let mut outline = Outline::of_traces("finds what to change in", &self.traces)
            .results("out", &self.out, files::names())
            .results("out", &self.wanted.searches.folder, self.search_files())
            .check_value("pass", || self.chosen_passes().map(drop))
            .check_value("out", || self.files().map(drop))
            .check("traces", &self.traces, |_| inputs::check(&self.traces));
        outline.reads.extend(self.wanted.reads());
        let outline = outline
            .check_each("xla_candidate_path", |file| candidate_lines(file).map(drop))
            .check_each("clusters", |file| group_lines(file).map(drop))
            .check_each("network", |network| perf4sight_onnx::read(network).map(drop));
        Ok(self.request.outline(outline))
    }

    /// The files of searches, below the results.
    fn search_files(&self) -> Vec<PathBuf> {
        let searches = if self.searches_something() { self.wanted.searches.all() } else { Vec::new() };
        searches.into_iter().map(|search| SearchSettings::file(Path::new(""), search)).collect()
    }

    fn write(&self, mut files: ResultFiles, shown: StrategyResults, context: &mut Context) -> Result<Summary> {
        shown.warnings.iter().for_each(|warning| context.warn(warning));
        let json = json::to_json(&shown);
        files.add(files::REPORT, page::build_page(&shown).to_html());
        files.add(files::STRATEGY, format!("{}\n", json::strategy(&shown.found)));
        shown.found.files.iter().for_each(|(name, contents)| files.add(*name, contents.as_str()));
        files.write_all(json.clone())?;
        let tables = [tables::proposals(&shown), tables::others(&shown)];
        Ok(Summary {
            tables: tables.into_iter().filter(|table| !table.is_empty()).collect(),
            findings: shown.found.proposals.iter().map(finding).collect(),
            files: vec![("report", self.out.join(files::REPORT)), ("strategy", self.out.join(files::STRATEGY))],
            answer: shown.answer,
            json,
            ..Summary::default()
        })
    }
}

/// Refuses a pass that takes more memory than there is.
fn check_pass_memory(pass: &dyn OptimizationPass, needed: u64, available: u64) -> Result<()> {
    check_memory(&format!("the pass {}", pass.name()), needed, available).map_err(|error| {
        error.help("ask for other passes (pass), fewer searches (searches), or give traces of a shorter step")
    })
}

/// A pass, and the memory that it takes, where that is worth saying.
fn pass_text(pass: &dyn OptimizationPass, start: &RecordedStart, wanted: &PassSettings) -> String {
    match pass.memory(start, wanted) {
        0 => pass.name().to_owned(),
        needed => format!("{}, in up to {}", pass.name(), Bytes(needed)),
    }
}

fn finding(proposal: &ChangeProposal) -> TableFinding {
    let column = TableColumn::number("gain_percent", "shorter by");
    TableFinding { about: proposal.change.clone(), column, cell: Percent(proposal.gain()[0]).into() }
}

/// A proposal that shortens the step by less, in percent, is none.
const WORTH: f64 = 0.5;

impl StrategyResults {
    fn new(start: RecordedStart, mut found: PassResults) -> Result<Self> {
        found.proposals.sort_by(|one, other| {
            let rank = |proposal: &ChangeProposal| (proposal.gain()[0] < WORTH, proposal.learns, !is_sure(proposal));
            rank(one).cmp(&rank(other)).then(other.gain()[0].total_cmp(&one.gain()[0]))
        });
        let together = combine_proposals(&start, &found.proposals);
        let answer = answer_text(&start, &found, together.as_ref());
        let assumed = assumptions(found.proposals.iter().chain(&together).chain(&found.others));
        let unanswered = found.unanswered.iter().cloned();
        let warnings = start.warnings.iter().cloned().chain(unanswered).chain(assumed).collect();
        Ok(StrategyResults { start, found, together, answer, warnings })
    }
}

/// What changes assume, each once, with the numbers of the changes in the tables.
fn assumptions<'a>(changes: impl Iterator<Item = &'a ChangeProposal>) -> Vec<String> {
    let mut assumed: Vec<(&str, Vec<usize>)> = Vec::new();
    for (number, change) in (1..).zip(changes) {
        for text in &change.outcome.assumptions {
            match assumed.iter_mut().find(|(known, _)| known == text) {
                Some((_, numbers)) => numbers.push(number),
                None => assumed.push((text, vec![number])),
            }
        }
    }
    let name = |numbers: &[usize]| {
        format!("{} {}", if numbers.len() == 1 { "change" } else { "changes" }, list_text(numbers, usize::MAX))
    };
    assumed.into_iter().map(|(text, numbers)| format!("{}: {text}", name(&numbers))).collect()
}

/// Several changes that each bring something and learn the same, made together: all of them, or, as one may make another impossible, those
/// that can be made after the ones that bring more.
fn combine_proposals(start: &RecordedStart, proposals: &[ChangeProposal]) -> Option<ChangeProposal> {
    let good = proposals.iter().filter(|one| one.learns == LearningEffect::Same && one.gain()[0] >= WORTH);
    let (alternatives, good): (Vec<_>, Vec<_>) = good.partition(|one| one.is_alternative);
    let all = match alternatives.is_empty() {
        true => "all of these that learn the same",
        false => "all of these that learn the same, with one bucket_cap_mb",
    };
    let good: Vec<(&str, Arc<dyn StepChange>)> =
        good.into_iter().filter_map(|one| Some((one.change.as_str(), one.edit.clone()?))).collect();
    let propose = |changes: &[(&str, Arc<dyn StepChange>)], words: &str| {
        let edits = changes.iter().map(|(_, edit)| edit.clone()).collect();
        ChangeProposal::new("", words, Arc::new(CombinedChanges(edits)), LearningEffect::Same, start).ok()
    };
    if good.len() < 2 {
        return None;
    }
    propose(&good, all).or_else(|| {
        let mut possible = Vec::new();
        for change in good {
            possible.push(change);
            let is_possible = propose(&possible, "").is_some();
            possible.truncate(possible.len() - usize::from(!is_possible));
        }
        let names: Vec<&str> = possible.iter().map(|(name, _)| *name).collect();
        (names.len() > 1).then(|| propose(&possible, &names.join("; ")))?
    })
}

fn answer_text(start: &RecordedStart, found: &PassResults, together: Option<&ChangeProposal>) -> String {
    let proposals = &found.proposals;
    let (before, step) = (Milliseconds(start.before as f64 / 1e6), start.step());
    let best = |learns: LearningEffect| proposals.iter().find(|one| one.learns == learns && one.gain()[0] >= WORTH);
    let seen = if found.unanswered.is_empty() { "Nothing" } else { "Of what could be looked at, nothing" };
    let same = best(LearningEffect::Same).map_or_else(
        || format!("{seen} that learns the same makes the {step} of {before} shorter by {WORTH} % or more."),
        |best| match is_sure(best) || best.outcome.longer_from.is_some() {
            true => format!("{} instead of the {step} of {before}.", gain_text(best)),
            false => format!(
                "{seen} that learns the same surely makes the {step} of {before} shorter; perhaps {}.",
                gain_text(best)
            ),
        },
    );
    let all = together.map(|all| sentence(&format!("{}, together: {}", all.change, effect(all))));
    let others = [LearningEffect::Rounded, LearningEffect::OtherStatistics, LearningEffect::OtherBatch]
        .into_iter()
        .filter_map(best);
    let others = others.map(|other| format!("What learns {}: {}.", other.learns.to_text(), gain_text(other)));
    let asked = found.answers.iter().map(|answer| sentence(answer));
    let straggler = start.straggler.as_deref().map(sentence);
    straggler.into_iter().chain([same]).chain(all).chain(others).chain(asked).collect::<Vec<_>>().join(" ")
}

/// Whether all of its interval is a shorter step.
fn is_sure(proposal: &ChangeProposal) -> bool {
    proposal.gain()[1] > 0.0
}

fn time_after(proposal: &ChangeProposal) -> Milliseconds {
    Milliseconds(proposal.outcome.after.time / 1e6)
}

/// The change, and what it brings.
fn gain_text(proposal: &ChangeProposal) -> String {
    format!("{}: {}", proposal.change, effect(proposal))
}

/// The step after a change, and by how much that is surely or perhaps shorter.
fn effect(proposal: &ChangeProposal) -> String {
    let [gain, least, most] = proposal.gain();
    let (takes, noise, unless) = match (is_sure(proposal), proposal.outcome.longer_from) {
        (true, _) => ("takes", "", String::new()),
        (false, Some(latency)) => {
            ("takes", "", format!(", unless a message takes {} or longer", Milliseconds(latency / 1e6)))
        }
        (false, None) => ("may take", ", within noise", String::new()),
    };
    // What takes several steps is compared by the batch.
    let unit = if proposal.edit.is_some() { "step" } else { "batch" };
    let [gain, least, most] = [gain, least, most].map(Percent);
    format!("a {unit} {takes} {}, {gain} less ({least} to {most}{noise}){unless}", time_after(proposal))
}

#[cfg(test)]
mod tests;

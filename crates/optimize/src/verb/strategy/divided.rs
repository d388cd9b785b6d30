//! The searches of operator fusion divided among machines, each machine with a folder of its own; all else takes seconds, and is done
//! where the results are.

use super::{OptimizeTraces, SEARCHES};
use crate::passes::searched_graph;
use crate::search::{FusionState, SearchCheckpoint, SearchOptions, SearchSettings, UnitGraph, identity};
use perf4sight_base::error::{Error, Result};
use perf4sight_verb::{Context, CountedNoun, Divisible, Outline, PlannedFiles, Summary, WorkItem, WorkPart};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Seconds of a move for each unit of the graph (`cargo bench -p perf4sight-optimize --bench search`: a move takes 1 ms on
/// 10,000 units).
const MOVE: f64 = 1e-7;

impl Divisible for OptimizeTraces {
    fn results(&self) -> &Path {
        &self.out
    }

    fn measures(&self) -> bool {
        false
    }

    fn outline_elsewhere(&self, _: &PlannedFiles, _: &Context) -> Result<Outline<'_>> {
        self.outline()
    }

    fn noun(&self) -> CountedNoun {
        CountedNoun { one: "search", several: "searches" }
    }

    fn items(&self, _: &PlannedFiles, _: &mut Context) -> Result<Vec<WorkItem>> {
        let Some(graph) = self.graph()? else { return Ok(Vec::new()) };
        let first = FusionState::new(&graph, self.wanted.simulate);
        let mut items = Vec::new();
        for search in self.wanted.searches.all() {
            if !self.wanted.searches.resume(search, &first)?.has_ended() {
                let seconds = MOVE * graph.units.len() as f64 * search.moves as f64;
                let time = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
                let name = item(search, &first);
                items.push(WorkItem { group: name.clone(), name, time });
            }
        }
        Ok(items)
    }

    fn run_part(&self, part: &WorkPart<'_>, context: &mut Context) -> Result<Summary> {
        let lacks = || {
            Error::input("this task has searches that the configuration or the traces lack")
                .help("the traces were changed since, or the node sees other files than the machine that submitted: both need the same folder")
        };
        let graph = self.graph()?.ok_or_else(lacks)?;
        let first = FusionState::new(&graph, self.wanted.simulate);
        let chosen = |search: &SearchOptions| part.items.contains(&item(*search, &first));
        let searches: Vec<SearchOptions> = self.wanted.searches.all().into_iter().filter(chosen).collect();
        if searches.len() < part.items.len() {
            return Err(lacks());
        }
        let own = SearchSettings { folder: part.folder.join(SEARCHES), ..self.wanted.searches.clone() };
        // A task that was killed left them among the results.
        copy(&searches, &self.out, part.folder)?;
        let cancel = context.cancel.clone();
        own.run(&searches, &first, &|_| !cancel.load(Ordering::Relaxed))?;
        Ok(Summary { headline: self.noun().count_text(searches.len()), ..Summary::default() })
    }

    fn merge(&self, folders: &[PathBuf], _: &mut Context) -> Result<()> {
        let all = self.wanted.searches.all();
        folders.iter().try_for_each(|folder| copy(&all, folder, &self.out))
    }

    fn conclude(&self, context: &mut Context) -> Result<Summary> {
        self.run_strategy(false, context)
    }
}

impl OptimizeTraces {
    /// The graph that is searched; none if nothing is.
    fn graph(&self) -> Result<Option<UnitGraph>> {
        searched_graph(&self.start()?, &self.wanted)
    }
}

/// The name of an item: the same only for the same search of the same graph.
fn item(search: SearchOptions, first: &FusionState<'_>) -> String {
    format!("{} seed {} of {}", search.optimizer.name(), search.seed, identity(search, first))
}

/// Takes over searches from one folder of results into another.
fn copy(searches: &[SearchOptions], from: &Path, to: &Path) -> Result<()> {
    let [from, to] = [from, to].map(|folder| folder.join(SEARCHES));
    let adopt = |search: &SearchOptions| {
        SearchCheckpoint::adopt(&SearchSettings::file(&from, *search), &SearchSettings::file(&to, *search))
    };
    searches.iter().try_for_each(adopt)
}

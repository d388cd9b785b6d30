//! Writes `report.html`: the answer, who waits for whom, one step of all ranks, exposed communication, clocks.

use super::{ReplayResults, tables};
use crate::Analysis;
use crate::exposed::CommunicationTimes;
use crate::replayed_job::ReplayedJob;
use crate::waiting::{RankActivity, RankSpan, RankState, spans};
use perf4sight_base::units::{Milliseconds, Percent, grouped_digits};
use perf4sight_report as report;
use perf4sight_report::{
    Axis, BarGroup, BarLength, Block, CellContent, CellSign, Chart, Colour, Fact, HeatCell, Heatmap, Page, Plot,
    Series, StackedBars, Texture, Timeline, sentence,
};
use perf4sight_traces::shortened::briefest;

/// Ranks that are drawn, those that the others wait for longest first if there are more.
const DRAWN: usize = 32;

/// The whole page.
pub(super) fn build_page(shown: &ReplayResults) -> Page {
    let ReplayResults { analysis, replayed, answer, warnings, hang, .. } = shown;
    let mut page = Page::new("Who waits for whom in distributed training", subtitle(analysis));
    if !hang.blocked.is_empty() {
        page.chapter("Operations that do not end", [Block::Table(super::hang::table(hang))]);
    }
    page.chapter("Which rank makes the others wait", answers(analysis, answer, warnings));
    if analysis.is_waiting_known() {
        page.chapter("Who waits for whom", [heatmap(analysis)].map(Block::Chart));
    }
    if analysis.job.ranks.len() > 1 {
        page.chapter("One step on all ranks", [timeline(analysis)].map(Block::Chart));
    }
    page.chapter("Communication", [Block::Chart(bars(analysis)), Block::Folded(tables::communication(analysis))]);
    if let Some(replayed) = replayed {
        page.chapter("Replay", replay(analysis, replayed));
    }
    page.chapter("Ranks and clocks", [Block::Table(tables::ranks(analysis))]);
    page
}

fn replay(analysis: &Analysis, replayed: &ReplayedJob) -> Vec<Block> {
    let mut facts = vec![
        Fact::new("replayed step", Milliseconds(replayed.typical as f64 / 1e6))
            .remark(format!("{} operations", grouped_digits(replayed.step.graph.nodes().len() as u64))),
    ];
    facts.extend(replayed.error().map(|error| {
        Fact::new("off steps that were left out", Percent(error.median)).remark(format!(
            "median of {}, which differ by {} themselves",
            error.steps,
            Percent(error.spread)
        ))
    }));
    let tables = [
        tables::replayed::what_ifs(replayed),
        tables::replayed::single_rank_table(replayed),
        tables::replayed::ranks(replayed),
        tables::replayed::critical(replayed),
        tables::replayed::names(replayed),
        tables::replayed::communication(replayed),
    ];
    let tables = tables.into_iter().filter(|table| !table.is_empty()).map(Block::Table);
    let steps = Block::Folded(tables::replayed::steps(analysis, replayed));
    std::iter::once(Block::Headline(facts)).chain(tables).chain([steps]).collect()
}

fn subtitle(analysis: &Analysis) -> String {
    let ranks = &analysis.job.ranks;
    match (ranks.first(), ranks.last()) {
        (Some(first), Some(last)) if ranks.len() > 1 => {
            format!("From {} traces, {} to {}.", ranks.len(), first.trace.file.display(), last.trace.file.display())
        }
        (Some(one), _) => format!("From the trace {}.", one.trace.file.display()),
        (None, _) => "No trace.".to_owned(),
    }
}

fn answers(analysis: &Analysis, answer: &str, warnings: &[String]) -> Vec<Block> {
    let mut blocks = vec![Block::Text(sentence(answer)), Block::Headline(facts(analysis))];
    blocks.extend(
        [tables::excess(analysis), tables::pairs(analysis)]
            .into_iter()
            .filter(|table| !table.is_empty())
            .map(Block::Table),
    );
    blocks.extend(warning_list(warnings));
    blocks
}

/// The warnings as sentences.
pub(super) fn warning_list(warnings: &[String]) -> Option<Block> {
    let warnings: Vec<String> = warnings.iter().map(|warning| sentence(warning)).collect();
    Some(warnings).filter(|warnings| !warnings.is_empty()).map(Block::List)
}

fn facts(analysis: &Analysis) -> Vec<Fact> {
    let count = analysis.job.steps.len();
    let step = analysis.step().map(|step| Milliseconds(step.mean));
    let mut facts = vec![
        Fact::new("mean step", step).remark(format!("{count} recorded ones of the rank whose steps take longest")),
    ];
    if let Some(first) = analysis.first_straggler() {
        let rank = analysis.job.ranks[first.rank].number;
        facts.push(
            Fact::new(format!("waited for rank {rank}"), Milliseconds(first.caused.mean))
                .remark("mean of the other ranks"),
        );
        facts.push(Fact::new("of the mean step", Percent(100.0 * first.share)));
    }
    facts
}

/// The ranks that are drawn, in order.
fn drawn_ranks(analysis: &Analysis) -> Vec<usize> {
    let mut ranks: Vec<usize> = analysis.stragglers.iter().map(|straggler| straggler.rank).take(DRAWN).collect();
    ranks.sort_unstable();
    ranks
}

fn name(analysis: &Analysis, rank: usize) -> String {
    format!("rank {}", analysis.job.ranks[rank].number)
}

fn heatmap(analysis: &Analysis) -> Chart {
    let ranks = drawn_ranks(analysis);
    let cell = |rank: usize, other: usize| {
        let wait = analysis.waiting.summary(rank, other).map_or(0.0, |wait| wait.mean);
        let content = if rank == other { CellContent::Sign(CellSign::Blank) } else { CellContent::Number(wait) };
        let label = format!("{} waits {} for {}", name(analysis, rank), Milliseconds(wait), name(analysis, other));
        HeatCell { content, label }
    };
    let numbers: Vec<String> = ranks.iter().map(|rank| analysis.job.ranks[*rank].number.to_string()).collect();
    let plot = Heatmap {
        row_label: "rank that waits".to_owned(),
        column_label: "rank that it waits for".to_owned(),
        rows: numbers.clone(),
        columns: numbers,
        cells: ranks.iter().flat_map(|rank| ranks.iter().map(|other| cell(*rank, *other))).collect(),
        value: Axis::linear("waiting per step (ms)"),
        range: None,
        printed: ranks.len() <= 12,
        signs: Vec::new(),
    };
    let caption = "A dark column is a rank that the others wait for. Of several exchanges at the same time, a moment counts for the one that began first.";
    Chart::new("Who waits for whom", caption, Plot::Heatmap(plot))
}

/// The series of the timeline with their colours.
const SERIES: [(&str, Colour); 8] = [
    ("kernel", Colour::Nth(3)),
    ("operation", Colour::Nth(0)),
    ("Python", Colour::Nth(1)),
    ("data loading", Colour::Nth(2)),
    ("range", Colour::Nth(6)),
    ("nothing recorded", Colour::Nth(7)),
    ("waiting", Colour::Rival),
    ("transfer", Colour::Nth(4)),
];

/// The name of the series of a state.
fn series(state: &RankState) -> &'static str {
    match state {
        RankState::Busy(activity) => activity.kind(),
        RankState::Waiting => "waiting",
        RankState::Transfer => "transfer",
    }
}

fn timeline(analysis: &Analysis) -> Chart {
    let (ranks, step) = (drawn_ranks(analysis), analysis.typical());
    let (begin, _) = crate::timeline::window(analysis, step);
    let all: Vec<(usize, RankSpan)> = ranks
        .iter()
        .enumerate()
        .flat_map(|(track, rank)| spans(analysis, *rank, step).into_iter().map(move |span| (track, span)))
        .collect();
    let place = |(track, span): &(usize, RankSpan)| {
        let [start, stop] = [span.time.0, span.time.1].map(|at| (at - begin) as f64 / 1e6);
        report::TimelineSpan { track: *track, start, end: stop, name: label(&span.state) }
    };
    let series = SERIES.map(|(name, colour)| {
        let own = all.iter().filter(|(_, span)| series(&span.state) == name).map(place);
        Series::new(name, own).coloured(colour).textured(Texture::Plain)
    });
    let plot = Timeline {
        time: Axis::linear("time (ms)"),
        tracks: ranks.iter().map(|rank| name(analysis, *rank)).collect(),
        series: series.into_iter().filter(|series: &Series<report::TimelineSpan>| !series.data.is_empty()).collect(),
    };
    let caption = format!(
        "{}, a step of median length, on one clock. Where a rank computes and exchanges data at the same time, its computation is drawn on CPUs, the exchange on GPUs unless a kernel runs. timeline.json.gz holds all its events, for Perfetto (ui.perfetto.dev, Open trace file).",
        analysis.job.steps[step].name
    );
    Chart::new("One step on all ranks", caption, Plot::Timeline(plot))
}

fn label(state: &RankState) -> String {
    match state {
        RankState::Busy(RankActivity::Nothing { .. }) => String::new(),
        RankState::Busy(activity) => briefest(&activity.name()),
        RankState::Waiting => "waits".to_owned(),
        RankState::Transfer => "transfer".to_owned(),
    }
}

/// Exposed and hidden communication of each rank.
fn bars(analysis: &Analysis) -> Chart {
    let ranks = drawn_ranks(analysis);
    let series = |name: &str, part: &dyn Fn(&CommunicationTimes) -> f64, colour: Colour| {
        Series::new(name, ranks.iter().map(|rank| part(&analysis.exposed[*rank].all)).collect::<Vec<f64>>())
            .coloured(colour)
    };
    let plot = StackedBars {
        groups: vec![BarGroup { name: String::new(), bars: ranks.iter().map(|rank| name(analysis, *rank)).collect() }],
        value: Axis::linear("per step (ms)"),
        series: vec![
            series("exposed: waiting for other ranks", &|times| times.waiting, Colour::Rival),
            series("exposed: transfer", &|times| times.exposed - times.waiting, Colour::Nth(4)),
            series("hidden behind computation", &|times| times.hidden, Colour::Nth(0)),
        ],
        whole: BarLength::Sum,
        keys: Vec::new(),
        intervals: Vec::new(),
    };
    let caption = "What goes on at the same time counts once. Only exposed communication makes a step longer.";
    Chart::new("Exposed and hidden communication", caption, Plot::StackedBars(plot))
}

//! The answer in a sentence: which rank makes the others wait, and what it does longer than they do.

use crate::Analysis;
use crate::collectives::{CollectiveOperation, GroupKnowledge};
use crate::replayed_job::ReplayedJob;
use crate::waiting::{ActivityExcess, LEAST_SHARE, RankActivity, SlowLink, Straggler};
use crate::what_if::WhatIfOutcome;
use perf4sight_base::summary::ValueSummary;
use perf4sight_base::units::{Milliseconds, Percent};
use perf4sight_traces::rank_list;
use perf4sight_traces::shortened::brief;
use std::collections::BTreeSet;

/// What a rank does longer is named if it is this share of the waiting that it causes.
const EXPLAINS: f64 = 0.2;
/// What is named at most.
const NAMED: usize = 3;

/// The answer.
pub(super) fn headline(analysis: &Analysis, replayed: Option<&ReplayedJob>) -> String {
    let replay = replayed.and_then(ReplayedJob::error).map(|error| {
        format!(
            "; a step that is predicted from the others is off by {} (median of {} steps, which differ by {} themselves), and by {} if the ranks' computation in it is known",
            Percent(error.median),
            error.steps,
            Percent(error.spread),
            Percent(error.under_load)
        )
    });
    let costs = |outcome: &WhatIfOutcome| StragglerCosts {
        step: outcome.before as f64 / 1e6,
        without: outcome.after.time / outcome.before.max(1) as f64,
        bounds: [outcome.after.low, outcome.after.high].map(|bound| bound / 1e6),
        number: analysis.first_straggler().map_or(0, |first| analysis.job.ranks[first.rank].number),
    };
    let costs = replayed.and_then(|replayed| replayed.without_straggler.as_ref()).map(costs);
    format!("{}{}", who_waits(analysis, costs), replay.unwrap_or_default())
}

/// What waiting for the first straggler costs by the replay: exchanges wait while their ranks compute, too.
#[derive(Clone, Copy)]
struct StragglerCosts {
    /// Milliseconds of a step.
    step: f64,
    /// The step in which it is as the others, as a multiple of that.
    without: f64,
    /// The bounds of that step in milliseconds.
    bounds: [f64; 2],
    /// The number of the rank.
    number: u32,
}

impl StragglerCosts {
    /// Milliseconds by which a step is longer.
    fn longer(self) -> f64 {
        self.step * (1.0 - self.without)
    }

    fn sentence(self) -> String {
        let [without, step] = [self.step * self.without, self.step].map(Milliseconds);
        let [low, high] = self.bounds.map(Milliseconds);
        match self.without <= 1.0 - NOTHING {
            true => format!(
                "; with rank {} as the others a step takes {without} (95 %: {low} – {high}) instead of {step}, by the replay",
                self.number
            ),
            false => format!("; the replayed step of {step} is no longer for that"),
        }
    }
}

/// A smaller share of a step is nothing.
const NOTHING: f64 = 0.005;

/// Which rank makes the others wait.
fn who_waits(analysis: &Analysis, costs: Option<StragglerCosts>) -> String {
    if analysis.job.ranks.len() == 1 {
        return "one rank alone: who waits for whom is not known".to_owned();
    }
    if let Some(strange) = analysis.clocks.strangers.first() {
        return format!("{strange}: who waits for whom is not known");
    }
    if analysis.exchanges.groups == GroupKnowledge::Unknown {
        return "which process group an exchange is of is not known: nor is who waits for whom".to_owned();
    }
    let Some(first) = analysis.first_straggler() else { return nothing_matches(analysis) };
    let whole = analysis.step().map_or(0.0, |step| step.mean);
    if let Some(sentence) = one_waits(analysis, first, whole).or_else(|| in_turn(analysis, whole, costs)) {
        return sentence;
    }
    match first.share >= LEAST_SHARE && certain(analysis, first) {
        true => format!(
            "{}{}{}{}{}{}",
            blame(analysis, first, whole),
            reason(first, costs),
            costs.map_or_else(String::new, StragglerCosts::sentence),
            slow_link(analysis, whole, analysis.waiting.slow_link_of(&analysis.exchanges, first.rank)),
            despite_clocks(analysis, first),
            others(analysis, first)
        ),
        false if first.share >= LEAST_SHARE && is_occasional(analysis, first) => format!(
            "rank {} makes {} wait {}: {}{} of the mean step's {} on average; that is {} of all waiting{}",
            analysis.job.ranks[first.rank].number,
            exchanging_ranks(analysis, first.rank),
            when(analysis, first),
            on_occasions(analysis, first),
            Milliseconds(first.caused.mean),
            Milliseconds(whole),
            Percent(100.0 * first.of_all),
            reason(first, None)
        ),
        false if clocks_hide(analysis, first) => format!(
            "the others seem to wait for rank {}, {} of the mean step's {}, {}, but the clocks of the ranks are known to {} only, and whether it makes them wait is not known: more steps show it",
            analysis.job.ranks[first.rank].number,
            Milliseconds(first.caused.mean),
            Milliseconds(whole),
            steadiness(first),
            Milliseconds(analysis.waiting.uncertainty)
        ),
        false => format!(
            "no rank in particular makes the others wait{}{}{}",
            beside_missing(analysis),
            most(analysis, first, whole),
            slow_link(analysis, whole, analysis.waiting.slow_link(&analysis.exchanges))
        ),
    }
}

/// For whom the others wait most, if they wait at all.
fn most(analysis: &Analysis, first: &Straggler, whole: f64) -> String {
    let caused = Milliseconds(first.caused.mean).to_string();
    match caused == Milliseconds(0.0).to_string() {
        true => String::new(),
        false => format!(
            ": rank {} most, for {caused} of the mean step's {}, {}",
            analysis.job.ranks[first.rank].number,
            Milliseconds(whole),
            steadiness(first)
        ),
    }
}

/// A rank that waits for so much of all waiting is the only one that does, and one that is waited for in so many steps the only one.
const ALONE: f64 = 0.8;

/// That one rank waits for the others, which do not wait for each other: it has less to do, or they have more.
fn one_waits(analysis: &Analysis, first: &Straggler, whole: f64) -> Option<String> {
    let ranks = analysis.job.ranks.len();
    let waits: Vec<f64> = (0..ranks).filter_map(|rank| Some(analysis.waiting_summary(rank)?.mean)).collect();
    let (rank, longest) = waits.iter().copied().enumerate().max_by(|one, other| one.1.total_cmp(&other.1))?;
    let is_alone = ranks > 2 && first.steadiness < ALONE && longest >= ALONE * waits.iter().sum::<f64>();
    let is_certain = longest > analysis.waiting.uncertainty && longest >= LEAST_SHARE * whole;
    (is_alone && is_certain).then(|| {
        format!(
            "rank {} waits {} of the mean step's {} for the others, which take equally long: it has less to do than they",
            analysis.job.ranks[rank].number,
            Milliseconds(longest),
            Milliseconds(whole)
        )
    })
}

/// That ranks work in turn, as the stages of a pipeline, which then wait for each other even where none is slow: which one works longest, and which link is slow.
fn in_turn(analysis: &Analysis, whole: f64, costs: Option<StragglerCosts>) -> Option<String> {
    if analysis.waiting.share_of_messages(&analysis.exchanges) < MOST {
        return None;
    }
    let ranks = analysis.job.ranks.len();
    let all: f64 = (0..ranks).filter_map(|rank| Some(analysis.waiting_summary(rank)?.mean)).sum();
    let number = |rank: usize| analysis.job.ranks[rank].number;
    let busiest = analysis.stragglers.iter().max_by(|one, other| one.busier.total_cmp(&other.busier))?;
    let busiest = match busiest.busier >= LEAST_SHARE * whole {
        true => {
            let costs = costs.filter(|_| analysis.stragglers[0].rank == busiest.rank);
            let [longer, number] = [Milliseconds(busiest.busier).to_string(), number(busiest.rank).to_string()];
            let reason = reasons(busiest, |longer| longer >= EXPLAINS * busiest.busier).unwrap_or_default();
            format!(
                "rank {number} works {longer} longer than the others{reason}{}",
                costs.map_or_else(String::new, StragglerCosts::sentence)
            )
        }
        false => "no rank works much longer than the others".to_owned(),
    };
    Some(format!(
        "the ranks wait for each other's messages, as the stages of a pipeline do in turn: {} of the mean step's {} on average; {busiest}{}",
        Milliseconds(all / ranks as f64),
        Milliseconds(whole),
        slow_link(analysis, whole, analysis.waiting.slow_link(&analysis.exchanges))
    ))
}

/// That some ranks exchange more slowly than others do.
fn slow_link(analysis: &Analysis, whole: f64, link: Option<SlowLink>) -> String {
    let Some(link) = link.filter(|link| link.longer >= LEAST_SHARE * whole) else {
        return String::new();
    };
    let SlowLink { operation, ranks, times, longer } = link;
    let (longer, number) = (Milliseconds(longer), |rank: &usize| analysis.job.ranks[*rank].number);
    if let (CollectiveOperation::SendReceive, [from, to]) = (operation, ranks.as_slice()) {
        return format!(
            "; messages from rank {} to rank {} take {times:.1} times as long as those between the others, {longer} of a step more",
            number(from),
            number(to)
        );
    }
    format!(
        "; what {} exchange ({}) takes {times:.1} times as long as in other groups of as many ranks, {longer} of a step more: their link may be slow",
        rank_list(&ranks.iter().map(number).collect()),
        operation.label()
    )
}

/// Why no exchange is known of several ranks.
fn nothing_matches(analysis: &Analysis) -> String {
    let exchanged = analysis.exchanges.calls.iter().filter(|calls| !calls.is_empty()).count();
    let missing = analysis.job.missing();
    let lacking = analysis.job.ranks.iter().filter(|rank| rank.launches.lack_all()).map(|rank| rank.number);
    let lacking: BTreeSet<u32> = lacking.collect();
    let why = match exchanged > 1 {
        _ if !lacking.is_empty() => format!("no kernel of {} is in the traces, though some were launched", rank_list(&lacking)),
        false => "the ranks exchange nothing".to_owned(),
        true if lacks_peers(analysis) => "the traces do not say from which ranks others receive, as those of gloo that are recorded without shapes (record_shapes=True) or receive from any rank".to_owned(),
        true if missing.is_empty() => {
            "no exchange of one rank matches one of another, as if the traces were of different jobs".to_owned()
        }
        true => format!("no exchange is among the ranks with a trace, as if all were with {}", rank_list(&missing)),
    };
    format!("{why}: who waits for whom is not known")
}

/// Of whom it is not known whether they make the others wait.
fn beside_missing(analysis: &Analysis) -> String {
    let missing = analysis.job.missing();
    match missing.is_empty() {
        true => String::new(),
        false => format!(", unless one without a trace does ({})", rank_list(&missing)),
    }
}

/// Whether ranks receive what no trace says the sender of.
fn lacks_peers(analysis: &Analysis) -> bool {
    let mut calls = analysis.exchanges.calls.iter().flatten();
    analysis.job.ranks.len() > 2
        && calls.any(|call| call.operation == CollectiveOperation::Receive && call.arguments.peers[0].is_none())
}

/// A straggler is the one that the others wait for longest in at least this share of the steps.
const STEADY: f64 = 0.5;

/// Whether waiting for the first straggler is longer than chance and uncertain clocks explain.
fn certain(analysis: &Analysis, first: &Straggler) -> bool {
    let is_shown = clocks_show(analysis, first) || durations_show(first);
    first.steadiness >= STEADY && first.stands_out && is_steady(analysis, first) && is_shown
}

/// Whether the others wait for a rank by more than steps differ, whatever the clocks show: the interval of that alone is above zero.
fn is_steady(analysis: &Analysis, first: &Straggler) -> bool {
    let steps = analysis.waiting.steps.iter().map(|step| step.caused_waiting(first.rank));
    let interval = ValueSummary::compute(&steps.collect::<Vec<_>>()).and_then(|caused| caused.interval);
    interval.is_none_or(|[low, _]| low > 0.0)
}

/// From this share of all waiting on, that for one rank is what there is to tell.
const MOST: f64 = 0.5;

/// Whether others wait for the first straggler in some steps alone, longer than uncertain clocks explain.
fn is_occasional(analysis: &Analysis, first: &Straggler) -> bool {
    let shortest = first.occasions.iter().map(|one| one.milliseconds).fold(f64::INFINITY, f64::min);
    let is_certain = shortest > 2.0 * analysis.waiting.uncertainty || durations_show(first);
    let is_chance = !first.stands_out && first.of_all < ALONE;
    let occasions = first.occasions.len();
    // A rank that becomes slow is late in most steps, and by how much is not steady.
    let is_alone = first.stands_out && first.of_all >= ALONE;
    let is_known = !is_mostly(analysis, first) || is_steady(analysis, first) || is_alone;
    first.of_all >= MOST && !is_chance && occasions > 1 && is_known && is_certain
}

/// In which steps the others wait long for a rank.
fn when(analysis: &Analysis, first: &Straggler) -> String {
    let steps = &analysis.job.steps;
    let name = |step: usize| &steps[step].name;
    match first.slow_from_to(steps.len()) {
        Some([from, to]) if from > 0 && to + 1 == steps.len() => format!("from {} on", name(from)),
        Some([0, to]) if to + 1 < steps.len() => format!("until {}", name(to)),
        Some([from, to]) if from > 0 => format!("from {} to {}", name(from), name(to)),
        _ if is_always(analysis, first) => "in all steps".to_owned(),
        _ if is_mostly(analysis, first) => "in most steps".to_owned(),
        _ => "now and then".to_owned(),
    }
}

/// How long the others wait for a rank in the steps in which they do, if these are not all.
fn on_occasions(analysis: &Analysis, first: &Straggler) -> String {
    let [occasions, steps] = [first.occasions.len(), analysis.job.steps.len()];
    match is_always(analysis, first) {
        true => String::new(),
        false => format!("{} in {occasions} of {steps} steps, ", Milliseconds(first.mean_occasion())),
    }
}

/// Whether the others wait long for a rank in all steps.
fn is_always(analysis: &Analysis, first: &Straggler) -> bool {
    first.occasions.len() == analysis.job.steps.len()
}

/// Whether the others wait long for a rank in most steps.
fn is_mostly(analysis: &Analysis, first: &Straggler) -> bool {
    first.occasions.len() as f64 > STEADY * analysis.job.steps.len() as f64
}

/// Other ranks that make others wait nearly as long are part of the answer from this share of that for the first on.
const ALSO: f64 = 0.5;

/// Other ranks that others wait for nearly as long as for the first.
fn others(analysis: &Analysis, first: &Straggler) -> String {
    let is_also = |one: &&Straggler| one.caused.mean >= ALSO * first.caused.mean && one.share >= LEAST_SHARE;
    let shows = |one: &&Straggler| clocks_show(analysis, one) || durations_show(one) || is_occasional(analysis, one);
    let also = analysis.stragglers.iter().skip(1).take(NAMED).filter(is_also).filter(shows);
    let named = |one: &Straggler| {
        let [rank, caused] =
            [analysis.job.ranks[one.rank].number.to_string(), Milliseconds(one.caused.mean).to_string()];
        let steady = if one.steadiness > 0.0 { format!(", {}", steadiness(one)) } else { String::new() };
        format!("; rank {rank} makes others wait, too: {caused}{steady}")
    };
    also.map(named).collect()
}

fn clocks_show(analysis: &Analysis, first: &Straggler) -> bool {
    let above_zero = first.caused.interval.is_none_or(|[low, _]| low > 0.0);
    above_zero && first.caused.mean > analysis.waiting.uncertainty
}

/// Whether what is named takes so much longer on the first straggler than on the others that they have to wait for it, whatever
/// the clocks show: a duration is by one clock.
fn durations_show(first: &Straggler) -> bool {
    let own = first.excess.iter().filter(|one| !one.activity.is_before()).take(NAMED);
    own.map(ActivityExcess::longer).sum::<f64>() >= HIDING * first.to_explain()
}

fn despite_clocks(analysis: &Analysis, first: &Straggler) -> String {
    if clocks_show(analysis, first) || analysis.waiting.uncertainty < HIDING * first.caused.mean {
        return String::new();
    }
    let uncertain = Milliseconds(analysis.waiting.uncertainty);
    format!(
        "; the clocks of the ranks are known to {uncertain} only, but how long it takes longer does not rest on them"
    )
}

/// Whether waiting for the first straggler is long and steady, and only clocks are too uncertain to be sure of it.
fn clocks_hide(analysis: &Analysis, first: &Straggler) -> bool {
    let is_uncertain = analysis.waiting.uncertainty >= HIDING * first.caused.mean;
    first.share >= LEAST_SHARE && first.steadiness >= STEADY && is_uncertain
}

/// Clocks that are uncertain by this share of the waiting may explain it, as may what takes longer by this share of it.
const HIDING: f64 = 0.5;

fn steadiness(first: &Straggler) -> String {
    match first.steadiness {
        all if all >= 1.0 => "in every step".to_owned(),
        share => format!("longest of all ranks in {} of the steps", Percent(100.0 * share)),
    }
}

/// The ranks that exchange with one, directly or through others.
fn exchanging_ranks(analysis: &Analysis, rank: usize) -> String {
    let islands = analysis.exchanges.islands(analysis.job.ranks.len());
    let others = (0..islands.len()).filter(|other| *other != rank && islands[*other] == islands[rank]);
    let others: BTreeSet<u32> = others.map(|other| analysis.job.ranks[other].number).collect();
    match others.len() + 1 == islands.len() {
        true => "the others".to_owned(),
        false => rank_list(&others),
    }
}

fn blame(analysis: &Analysis, first: &Straggler, whole: f64) -> String {
    let interval = first
        .caused
        .interval
        .map_or(String::new(), |[low, high]| format!(" (95 %: {} – {})", Milliseconds(low), Milliseconds(high)));
    format!(
        "rank {} makes {} wait {}{interval} of the mean step's {}, {}",
        analysis.job.ranks[first.rank].number,
        exchanging_ranks(analysis, first.rank),
        Milliseconds(first.caused.mean),
        Milliseconds(whole),
        steadiness(first)
    )
}

/// What the straggler does longer.
fn reason(first: &Straggler, costs: Option<StragglerCosts>) -> String {
    let waiting = first.to_explain();
    let costs = costs.filter(|_| !first.on_occasions).map_or(waiting, |costs| costs.longer());
    let explains = |longer: f64| longer >= EXPLAINS * costs.clamp(EXPLAINS * waiting, waiting);
    reasons(first, explains).unwrap_or_else(|| "; nothing that it does takes much longer than on the others".to_owned())
}

/// What a rank does longer of which the milliseconds explain something.
fn reasons(first: &Straggler, explains: impl Fn(f64) -> bool) -> Option<String> {
    // What takes longer in one step makes the rank begin the next one later.
    let is_later_start = |one: &ActivityExcess| {
        one.activity == RankActivity::LaterStart
            && one.longer() >= EXPLAINS * first.to_explain()
            && !durations_show(first)
    };
    let is_cause = |one: &&ActivityExcess| !one.activity.is_before() || is_later_start(one);
    let longest = first.excess.iter().filter(|one| explains(one.longer())).filter(is_cause).take(NAMED);
    let longest: Vec<&ActivityExcess> = longest.collect();
    let is_part = |one: &ActivityExcess| {
        let mut all = longest.iter().filter(|all| all.activity.is_together());
        all.any(|all| *all != one && all.activity == one.activity.without_name())
    };
    let parts = longest.iter().map(|one| if is_part(one) { part(one) } else { excess(first, one) });
    let parts: Vec<String> = parts.collect();
    let when = if first.on_occasions { "; in these steps it" } else { "; it" };
    (!parts.is_empty()).then(|| format!("{when} {}", parts.join("; ")))
}

fn excess(first: &Straggler, one: &ActivityExcess) -> String {
    let longer = Milliseconds(one.longer());
    let unasked = match &one.activity {
        RankActivity::Python(_) => " (between operators, which no what-if changes)",
        RankActivity::LaterStart => {
            return format!("begins its step {longer} later than the others, {}", until_then(first, one.longer()));
        }
        RankActivity::Kernel(_)
        | RankActivity::DataLoading(_)
        | RankActivity::Operation(_)
        | RankActivity::Range(_)
        | RankActivity::Before(_)
        | RankActivity::Nothing { .. } => "",
    };
    format!("takes {longer} longer: {}, {}{unasked}", one.activity.kind(), brief(&one.activity.name()))
}

/// What is part of what was named before it, as one operation of all together.
fn part(one: &ActivityExcess) -> String {
    format!("of that {}: {}", Milliseconds(one.longer()), brief(&one.activity.name()))
}

/// What a rank does until it begins its step later than the others, if that is most of it.
fn until_then(first: &Straggler, later: f64) -> String {
    let known = first.excess.iter().filter(|one| one.longer() >= MOST * later);
    let doing =
        known.filter_map(|one| if let RankActivity::Before(doing) = &one.activity { Some(doing) } else { None });
    match doing.max_by_key(|doing| !doing.is_together()) {
        Some(doing) => format!("until then {}, {}", doing.kind(), brief(&doing.name())),
        None => "and no trace shows why".to_owned(),
    }
}

//! What `cost-model train` writes: the model, and a page that shows what was fitted and how far off it is.

use crate::model_file::{self, CostModel};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::units::{Percent, count_text};
use perf4sight_base::{overwrite, stats};
use perf4sight_report::{
    Axis, Bars, Block, Chart, Page, Plot, Scatter, ScatterPoint, Series, Table, sentence, significant,
};
use perf4sight_verb::{Context, Summary};
use std::path::{Path, PathBuf};

/// The band around equal values in the chart of predictions, as a share.
const BAND: f64 = 0.1;
/// More points than a reader tells apart are thinned out.
const MOST_POINTS: usize = 2000;
/// More bars than a reader compares are left to the table.
const MOST_BARS: usize = 40;

/// The files of a fit, which may be written.
pub(super) struct TrainedFiles {
    model: PathBuf,
    page: PathBuf,
    overwrite: bool,
}

/// A fitted model, as its page shows it.
pub(super) struct TrainedModel {
    /// The kind of model, and what it was fitted on.
    pub title: String,
    pub subtitle: String,
    pub answer: String,
    /// Errors of what was left out: of a network, a GPU, or plans of a degree.
    pub errors: Vec<LeftOutError>,
    /// What was measured and predicted, left out of the fit.
    pub predictions: LeftOutPredictions,
    /// Tables of errors.
    pub tables: Vec<Table>,
    pub parameters: Option<Table>,
}

/// How far predictions for what was left out are off, in percent.
pub(super) struct LeftOutError {
    pub name: String,
    pub mean: f64,
    /// Nine of ten are off by at most this.
    pub nine_of_ten: Option<f64>,
}

/// Values that were predicted without their measurement.
pub(super) struct LeftOutPredictions {
    /// "step (ms)".
    pub what: &'static str,
    pub series: Vec<(String, Vec<LeftOutPrediction>)>,
}

/// One of them.
pub(super) struct LeftOutPrediction {
    pub name: String,
    pub measured: f64,
    pub predicted: f64,
    /// By how many of its own standard deviations the prediction is off, where these are known.
    pub deviations: Option<f64>,
}

/// From this error on, in percent, a model that plans like these were fitted to says little, and some may contradict others.
const POOR: f64 = 20.0;
/// What takes so many times as long as the others say, or as little, contradicts them.
const APART: f64 = 3.0;
/// It does too from this factor on, if it is so many times as far off as the others usually are: one batch that was doubled takes 1.9 times as long as
/// given where the others are 2 % off.
const APART_FROM_CLOSE: (f64, f64) = (1.5, 10.0);
/// What is off by fewer of its prediction's own standard deviations than the first does not contradict the others, by more than the second it does for certain: of
/// 119 tables of 12 to 100 rows, each of one law with 2 % of noise, the worst row was up to 5.1 off; rows in another unit were 8 or more, doubled ones 3 to 10.
const DEVIATIONS: [f64; 2] = [3.0, 5.2];
/// Rows are named beside the worst from this share of its logarithm on.
const OF_WORST: f64 = 0.5;
/// So many are named on either side.
const NAMED: usize = 2;

/// The plans of a fit that check each other: each was predicted from the others.
#[derive(Debug, Clone, Copy)]
pub(super) struct DistinctPlans {
    pub plans: usize,
    /// What counts as different, in words.
    pub by: &'static str,
    /// With fewer, predictions rest on what is usual rather than on the others.
    pub enough: usize,
}

impl DistinctPlans {
    fn too_few(&self) -> Option<String> {
        (self.plans < self.enough).then(|| {
            format!(
                "too few plans differ to see whether rows contradict others: {} ({}), where {} would show it",
                self.plans, self.by, self.enough
            )
        })
    }
}

impl LeftOutPredictions {
    /// What to look for where measurements contradict each other, or that too few plans differ to see it.
    pub fn contradictions(&self, different: DistinctPlans) -> Option<String> {
        if self.series.iter().all(|(_, points)| points.is_empty()) {
            return None;
        }
        let too_few = different.too_few();
        // A plan without any other was predicted from what is usual alone.
        if different.plans < 2 {
            return too_few;
        }
        let mut all: Vec<&LeftOutPrediction> = self.series.iter().flat_map(|(_, points)| points).collect();
        all.sort_by(|one, other| one.ratio().total_cmp(&other.ratio()));
        let off = stats::mean(&all.iter().map(|one| 100.0 * (1.0 / one.ratio() - 1.0).abs()).collect::<Vec<_>>());
        let usual = stats::median(&all.iter().map(|one| one.distance()).collect::<Vec<_>>());
        let far = match too_few {
            Some(_) => APART.ln(),
            None => (APART_FROM_CLOSE.1 * usual).clamp(APART_FROM_CLOSE.0.ln(), APART.ln()),
        };
        // A wrong row also spoils the predictions of those that are like it.
        let worst = all.iter().map(|one| one.distance()).fold(0.0, f64::max);
        let far = far.max(OF_WORST * worst);
        let is_far = |one: &LeftOutPrediction| one.distance() > far && one.is_beyond(DEVIATIONS[0]);
        let some_far = all.iter().any(|one| is_far(one));
        if !some_far && (too_few.is_some() || off <= POOR) {
            return too_few;
        }
        let is_meant = |one: &&&LeftOutPrediction| is_far(one) || !some_far;
        let contradict = match all.iter().filter(is_meant).any(|one| one.is_beyond(DEVIATIONS[1])) {
            true => "some rows contradict others",
            false => "some rows may contradict others, or too few are like them to predict them",
        };
        let mut named: Vec<&LeftOutPrediction> =
            all.iter().take(NAMED).chain(all.iter().skip(NAMED).rev().take(NAMED)).filter(is_meant).copied().collect();
        named.sort_by(|one, other| other.distance().total_cmp(&one.distance()));
        let both_ways = named.iter().any(|one| one.ratio() > 1.0) && named.iter().any(|one| one.ratio() < 1.0);
        let spoiled =
            if both_ways { " (a wrong row makes those that are like it look wrong the other way)" } else { "" };
        let mut words: Vec<String> =
            named.into_iter().map(|one| format!("{} ({} times)", one.name, significant(one.ratio()))).collect();
        words.dedup();
        Some(format!(
            "{contradict}: their {} is so many times what the others say: {}{spoiled}. A table does not say whether it holds several kinds of GPU or programs, numbers in other units, or the batch of all replicas where one's is meant; mend it, or fit each by itself",
            self.what,
            words.join("; ")
        ))
    }
}

impl LeftOutPrediction {
    /// How many times what was predicted was measured.
    fn ratio(&self) -> f64 {
        self.measured / self.predicted
    }

    /// The logarithm of how far off it is, either way.
    fn distance(&self) -> f64 {
        self.ratio().ln().abs()
    }

    /// Whether it is off by more of its own standard deviations, as far as these are known.
    fn is_beyond(&self, deviations: f64) -> bool {
        self.deviations.is_none_or(|own| own > deviations)
    }
}

/// What was measured of a prediction that was made.
pub(super) struct MeasuredPrediction {
    /// Whether the model was fitted on it, so that it says nothing of others.
    pub is_fitted: bool,
    pub measured: f64,
    pub predicted: f64,
    pub interval: (f64, f64),
}

impl MeasuredPrediction {
    fn off_percent(&self) -> f64 {
        100.0 * (self.predicted / self.measured - 1.0).abs()
    }

    fn is_held(&self) -> bool {
        (self.interval.0..=self.interval.1).contains(&self.measured)
    }
}

/// How far predictions that were not fitted are from what was measured; empty where nothing was.
pub(super) fn score_sentence(all: impl Iterator<Item = MeasuredPrediction>, what: &str) -> String {
    let (fitted, others): (Vec<_>, Vec<_>) = all.partition(|one| one.is_fitted);
    let were = |count: usize| if count == 1 { "was" } else { "were" };
    let counted = |count: usize| count_text(count as u64, what);
    let scored = (!others.is_empty()).then(|| {
        let errors: Vec<f64> = others.iter().map(MeasuredPrediction::off_percent).collect();
        format!(
            "Predictions of {} that {} not fitted are {} off on average; measurements within their intervals: {}.",
            counted(others.len()),
            were(others.len()),
            mean_and_median(stats::mean(&errors), &errors),
            others.iter().filter(|one| one.is_held()).count()
        )
    });
    let not_counted = (!fitted.is_empty()).then(|| {
        let says = if fitted.len() == 1 { "says" } else { "say" };
        format!("{} {} fitted, and {says} nothing of others.", counted(fitted.len()), were(fitted.len()))
    });
    scored.into_iter().chain(not_counted).collect::<Vec<_>>().join(" ")
}

impl TrainedFiles {
    /// Files that may be written: a model, and next to it its page.
    ///
    /// # Errors
    /// An input in the place of either; a page in the place of the model; files of others that would be replaced, unless `overwrite`.
    pub fn new<'a>(model: &Path, inputs: impl Iterator<Item = &'a Path> + Clone, overwrite: bool) -> Result<Self> {
        let page = page_of(model);
        [model, &page].into_iter().try_for_each(|file| overwrite::check_inputs(file, inputs.clone()))?;
        if page == model {
            return Err(Error::usage("the model would be replaced by its page")
                .file(model)
                .expected("a name such as model.json"));
        }
        overwrite::check_contents(model, model_file::ALIKE, overwrite)?;
        overwrite::check_contents(&page, Page::new("", "").to_html(), overwrite)?;
        Ok(TrainedFiles { model: model.to_owned(), page, overwrite })
    }

    /// Writes both, and returns their names for the summary.
    ///
    /// # Errors
    /// A file of others in the place of the model, unless it may be replaced; a failed write.
    pub fn write(
        self,
        model: &CostModel,
        trained: &TrainedModel,
        context: &Context,
    ) -> Result<Vec<(&'static str, PathBuf)>> {
        // Both were checked before the fit: if the model cannot be written, neither is.
        model_file::save(model, &self.model, self.overwrite)?;
        overwrite::save(&self.page, page(trained, context.warnings()).to_html(), self.overwrite)?;
        Ok(vec![("model", self.model), ("report", self.page)])
    }
}

/// The page of a model.
pub(super) fn page_of(model: &Path) -> PathBuf {
    model.with_extension("html")
}

/// A mean is this many times the median where few errors make it.
const FEW: f64 = 1.5;

/// "60.0 % (median 5.4 %)"; the mean alone where both tell the same.
pub(super) fn mean_and_median(mean: f64, errors: &[f64]) -> String {
    let median = if errors.is_empty() { mean } else { stats::median(errors) };
    match mean > FEW * median {
        true => format!("{} (median {})", Percent(mean), Percent(median)),
        false => Percent(mean).to_string(),
    }
}

/// What a fit that was interrupted ends with.
pub(super) fn interrupted_summary() -> Summary {
    Summary { headline: "interrupted; nothing was written".to_owned(), ..Summary::default() }
}

fn page(trained: &TrainedModel, warnings: &[String]) -> Page {
    let mut page = Page::new(&trained.title, &trained.subtitle);
    let warnings: Vec<String> = warnings.iter().map(|warning| sentence(warning)).collect();
    let list = Some(warnings).filter(|warnings| !warnings.is_empty()).map(Block::List);
    page.chapter("The answer", [Block::Text(trained.answer.clone())].into_iter().chain(list));
    let charts = bars(&trained.errors).into_iter().chain([scatter(&trained.predictions)]).map(Block::Chart);
    page.chapter("Errors of what was left out", charts.chain(trained.tables.iter().cloned().map(Block::Table)));
    if let Some(parameters) = &trained.parameters {
        page.chapter("What was fitted", [Block::Table(parameters.clone())]);
    }
    page
}

/// The errors as bars; none where there are none, or too many.
fn bars(errors: &[LeftOutError]) -> Option<Chart> {
    let mut series = vec![Series::new("mean", errors.iter().map(|error| Some(error.mean)))];
    if errors.iter().any(|error| error.nine_of_ten.is_some()) {
        series.push(Series::new("nine of ten are within", errors.iter().map(|error| error.nine_of_ten)));
    }
    let plot = Bars {
        categories: errors.iter().map(|error| error.name.clone()).collect(),
        value: Axis::linear("error (%)"),
        series,
        reference: None,
        most: None,
    };
    let caption = "Each was left out of a fit, which then predicted it.";
    (1..=MOST_BARS)
        .contains(&errors.len())
        .then(|| Chart::new("How far off predictions are", caption, Plot::Bars(plot)))
}

fn scatter(predictions: &LeftOutPredictions) -> Chart {
    let count: usize = predictions.series.iter().map(|(_, points)| points.len()).sum();
    let stride = count.div_ceil(MOST_POINTS).max(1);
    let series = predictions.series.iter().map(|(name, points)| {
        let point =
            |one: &LeftOutPrediction| ScatterPoint { x: one.measured, y: one.predicted, label: one.name.clone() };
        Series::new(name, points.iter().step_by(stride).map(point))
    });
    let plot = Scatter {
        x: Axis::log(format!("measured {}", predictions.what)),
        y: Axis::log(format!("predicted {}", predictions.what)),
        band: BAND,
        series: series.collect(),
    };
    let thinned = if stride > 1 { format!(" One of {stride} is drawn.") } else { String::new() };
    let caption =
        format!("Each was predicted without its measurement. On the line both are equal; the band is ±10 %.{thinned}");
    Chart::new("Measured against predicted", caption, Plot::Scatter(plot))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn predictions(ratios: &[f64]) -> LeftOutPredictions {
        let one = |(place, ratio): (usize, &f64)| LeftOutPrediction {
            name: format!("plan {place}"),
            measured: 100.0 * ratio,
            predicted: 100.0,
            deviations: None,
        };
        LeftOutPredictions {
            what: "step (ms)",
            series: vec![(String::new(), ratios.iter().enumerate().map(one).collect())],
        }
    }

    const MANY: DistinctPlans = DistinctPlans { plans: 9, by: "but for samples", enough: 9 };

    /// A GPU that is 2.2 times as fast as is usual: five plans of it are 0.57 to 0.9 times as long as four others and what is usual say, and agree
    /// with each other. Of one plan that is given twenty times nothing is known; ten times as long as four others is another unit.
    #[test]
    fn few_plans_contradict_each_other_by_much_alone() {
        let few = DistinctPlans { plans: 5, ..MANY };
        let faster = predictions(&[0.57, 0.7, 0.7, 0.8, 0.9]).contradictions(few).unwrap();
        assert!(faster.contains("others: 5 (but for samples), where 9 would"), "{faster}");
        let unit = predictions(&[1.05, 0.95, 10.0]).contradictions(few).unwrap();
        assert!(unit.contains("some rows contradict others") && unit.contains("plan 2 (10"), "{unit}");
        let equal = predictions(&[0.2; 20]).contradictions(DistinctPlans { plans: 1, ..MANY }).unwrap();
        assert!(equal.contains("others: 1 (but for samples)"), "{equal}");
    }

    /// Plans that are 5 % off contradict nothing; one in another unit is named alone, and of two kinds of GPU both ends.
    #[test]
    fn rows_that_contradict_others_are_named() {
        assert_eq!(predictions(&[1.05, 0.95, 1.0]).contradictions(MANY), None);
        let unit = predictions(&[1.05, 0.95, 10.0]).contradictions(MANY).unwrap();
        assert!(unit.contains("plan 2 (10") && !unit.contains("plan 1"), "{unit}");
        // One batch that was doubled: 1.9 times, 32 times as far off as 2 %. With 10 % it is only 7 times as far.
        let doubled = predictions(&[1.02, 0.98, 1.02, 0.98, 1.9]).contradictions(MANY).unwrap();
        assert!(doubled.contains("plan 4 (1.9") && !doubled.contains("plan 1"), "{doubled}");
        assert_eq!(predictions(&[1.1, 0.9, 1.1, 0.9, 1.1, 0.9, 1.1, 0.9, 1.1, 0.9, 1.9]).contradictions(MANY), None);
        let mixed = predictions(&[1.5, 0.66, 1.5, 0.66]).contradictions(MANY).unwrap();
        assert!(mixed.contains("plan 0 (1.5") && mixed.contains("plan 1 (0.66"), "{mixed}");
    }

    /// The only plan of a tensor degree, of twelve of one law: 0.373 times, which is 3.1 standard deviations of what is predicted without it. Fewer say
    /// nothing, and more than honest rows ever were say it for certain.
    #[test]
    fn rows_that_nothing_is_like_do_not_surely_contradict_others() {
        let said = |deviations: f64| {
            let mut of = predictions(&[1.05, 0.95, 1.0, 0.373]);
            of.series[0].1.iter_mut().for_each(|one| one.deviations = Some(0.5));
            of.series[0].1[3].deviations = Some(deviations);
            // Of eleven others, so that the mean is not poor.
            of.series[0].1.extend((4..15).map(|place| LeftOutPrediction {
                name: format!("plan {place}"),
                measured: 100.0,
                predicted: 100.0,
                deviations: Some(0.0),
            }));
            of.contradictions(MANY)
        };
        assert_eq!(said(2.7), None);
        let unsure = said(3.1).unwrap();
        assert!(
            unsure.starts_with("some rows may contradict others, or") && unsure.contains("plan 3 (0.373"),
            "{unsure}"
        );
        let sure = said(8.0).unwrap();
        assert!(sure.starts_with("some rows contradict others: ") && !sure.contains("plan 1 "), "{sure}");
    }
}

//! Inside a step: time by class of operation, measured and predicted, where the profile timed operations.

use super::{Assessment, tables};
use crate::evaluation::{ClassScores, ClassTime};
use crate::report::{Axis, Bars, Block, Chart, Column, Plot, Point, Scatter, Series, Table};
use crate::units::Percent;
use std::collections::BTreeMap;

/// Half width of the band that counts as a good prediction.
const BAND: f64 = 0.1;

/// Charts and a table; nothing where no operation was timed.
pub(super) fn blocks(part: &Assessment) -> Vec<Block> {
    let (times, how) = times(part);
    let scores = ClassScores::by_class(times);
    if scores.is_empty() {
        return Vec::new();
    }
    let mut costliest: Vec<(&str, ClassScores)> = scores.into_iter().collect();
    costliest.sort_by(|a, b| b.1.share.total_cmp(&a.1.share));
    vec![
        Block::Text(format!("Steps of {how} whose operations were timed one by one, in place.")),
        Block::Chart(shares(&costliest)),
        Block::Chart(scatter(&costliest, times)),
        Block::Table(table(&costliest)),
    ]
}

/// What fits without the network say, where there are such.
fn times<'a>(part: &Assessment<'a>) -> (&'a [ClassTime], &'static str) {
    match &part.study.own.left_out {
        Some(left_out) => (&left_out.classes, "networks that were left out of the fit"),
        None => (&part.study.own.whole.classes, "networks that were fitted on"),
    }
}

fn shares(classes: &[(&str, ClassScores)]) -> Chart {
    let series =
        |name: &str, of: fn(&ClassScores) -> f64| Series::new(name, classes.iter().map(|(_, one)| Some(of(one))));
    let plot = Bars {
        categories: classes.iter().map(|(class, _)| (*class).to_owned()).collect(),
        value: Axis::linear("share of the time of all operations (%)"),
        series: vec![series("measured", |one| one.share), series("predicted", |one| one.predicted_share)],
        reference: None,
    };
    Chart::new("Where the time goes", "Bars of a pair should be equally long.", Plot::Bars(plot))
}

fn scatter(classes: &[(&str, ClassScores)], times: &[ClassTime]) -> Chart {
    let mut points: BTreeMap<&str, Vec<Point>> = BTreeMap::new();
    for time in times {
        let label = format!(
            "{}, {} batch {}: measured {}, predicted {}",
            time.class, time.variant, time.batch, time.measured, time.predicted
        );
        points.entry(time.class).or_default().push(Point { x: time.measured.0, y: time.predicted.0, label });
    }
    let series = classes.iter().map(|(class, _)| Series::new(*class, points.remove(class).unwrap_or_default()));
    let plot =
        Scatter { x: Axis::log("measured (ms)"), y: Axis::log("predicted (ms)"), band: BAND, series: series.collect() };
    Chart::new(
        "Classes of operations",
        "One point for each class in each step; in the band they differ by at most 10 %.",
        Plot::Scatter(plot),
    )
}

fn table(classes: &[(&str, ClassScores)]) -> Table {
    let columns = [
        Column::text("class", "class"),
        Column::number("rows", "steps"),
        Column::number("share", "share of the time"),
        Column::number("predicted_share", "predicted"),
        Column::number("mape", "mean error"),
        Column::number("bias", "bias"),
    ];
    let mut table = Table::new("Classes of operations", columns);
    for (class, ClassScores { share, predicted_share, scores }) in classes {
        let bias = format!("{:+.1} %", scores.bias);
        let shares = [*share, *predicted_share, scores.mape].map(|share| Percent(share).into());
        table.row([tables::capital(class).into(), scores.rows.into()].into_iter().chain(shares).chain([bias.into()]));
    }
    table
}

//! Inside a step: time by category of operation, measured and predicted, if the profile timed operations.

use super::{Assessment, tables};
use crate::evaluation::ClassScores;
use perf4sight_base::units::Percent;
use perf4sight_report::{Axis, Bars, Block, Chart, Colour, Plot, Series, Table, TableBuilder};

/// Charts and a table; none if no operation was timed.
pub(super) fn blocks(part: &Assessment) -> Vec<Block> {
    let (trial, how) = part.hardest();
    let scores = ClassScores::by_class(&trial.classes);
    if scores.is_empty() {
        return Vec::new();
    }
    let mut costliest: Vec<(&str, ClassScores)> = scores.into_iter().collect();
    costliest.sort_by(|a, b| b.1.share.total_cmp(&a.1.share));
    vec![
        Block::Text(format!("Steps of {how} whose operations were timed one by one, in place.")),
        Block::Chart(shares(&costliest)),
        Block::Chart(errors(&costliest)),
        Block::Table(table(&costliest)),
    ]
}

fn shares(classes: &[(&str, ClassScores)]) -> Chart {
    let series =
        |name: &str, of: fn(&ClassScores) -> f64| Series::new(name, classes.iter().map(|(_, one)| Some(of(one))));
    let plot = Bars {
        categories: classes.iter().map(|(class, _)| (*class).to_owned()).collect(),
        value: Axis::linear("share of the time of all operations (%)"),
        series: vec![
            series("measured", |one| one.share).coloured(Colour::Truth),
            series("predicted", |one| one.predicted_share).coloured(Colour::Subject),
        ],
        reference: None,
        most: None,
    };
    Chart::new("Where the time goes", "Bars of a pair should be equally long.", Plot::Bars(plot))
}

/// A category is judged by the mean over its steps: a point for every category in every step would give thousands of
/// points.
fn errors(classes: &[(&str, ClassScores)]) -> Chart {
    let lengths = classes.iter().map(|(_, one)| Some(one.scores.mape));
    let plot = Bars {
        categories: classes.iter().map(|(class, _)| (*class).to_owned()).collect(),
        value: Axis::linear("mean error (%)"),
        series: vec![Series::new("predicted", lengths).coloured(Colour::Subject)],
        reference: None,
        most: None,
    };
    Chart::new(
        "How far off classes are",
        "Shorter is better. The classes that take the most time come first.",
        Plot::Bars(plot),
    )
}

fn table(classes: &[(&str, ClassScores)]) -> Table {
    TableBuilder::new("Classes of operations", classes)
        .text("class", "class", |(class, _)| tables::capital(class))
        .number("rows", "steps", |(_, class)| class.scores.rows)
        .number("share", "share of the time", |(_, class)| Percent(class.share))
        .number("predicted_share", "predicted", |(_, class)| Percent(class.predicted_share))
        .number("mape", "mean error", |(_, class)| Percent(class.scores.mape))
        .number("bias", "bias", |(_, class)| format!("{:+.1} %", class.scores.bias))
        .table()
}

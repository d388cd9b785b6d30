//! The accuracy of step models on plans that were left out of the fit: `plan_accuracy PLANS.csv [TABLE.csv ...]`.

use perf4sight_base::error::Result;
use perf4sight_optimize::{AllReduceTimes, MeasuredPlan, StepModel, read_measured_plans};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;
use std::path::Path;

/// Seeds of random splits: those before were used to choose what the model assumes.
const SEEDS: std::ops::RangeInclusive<u64> = 101..=140;

/// What predictions for rows that were left out are off, and how many their intervals hold.
struct Score {
    /// Mean error in percent.
    error: f64,
    worst: f64,
    /// The intervals of plans whose combination of degree and sizes was measured, and of others.
    intervals: [IntervalScore; 2],
    /// Percent of all rows within their interval.
    held: f64,
}

/// Intervals of some rows.
#[derive(Default)]
struct IntervalScore {
    rows: f64,
    held: f64,
    /// The sum of their widths to either side, in percent.
    width: f64,
}

fn main() -> Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    let plans = arguments.next().unwrap_or_default();
    let rows = read_measured_plans(Path::new(&plans))?;
    let mut all_reduce = AllReduceTimes::default();
    arguments.try_for_each(|table| all_reduce.add(Path::new(&table)))?;
    for count in [10, 20, 40, 80] {
        let scores = SEEDS.map(|seed| random(&rows, &all_reduce, count, seed)).collect::<Result<Vec<_>>>()?;
        line(&format!("{count} random rows"), &scores);
    }
    for tensor in [1, 2, 4, 8] {
        leave_out(&format!("tensor degree {tensor} left out"), &rows, &all_reduce, |row| {
            row.plan.tensor_parallel != tensor
        })?;
    }
    for hidden in [1024, 2048] {
        leave_out(&format!("width {hidden} left out"), &rows, &all_reduce, |row| row.plan.hidden != hidden)?;
    }
    leave_out("fitted on 2 GPUs", &rows, &all_reduce, |row| row.plan.gpus == 2)
}

fn random(rows: &[MeasuredPlan], all_reduce: &AllReduceTimes, count: usize, seed: u64) -> Result<Score> {
    let mut rows = rows.to_vec();
    rows.shuffle(&mut Xoshiro256PlusPlus::seed_from_u64(seed));
    let others = rows.split_off(count);
    score(rows, &others, all_reduce)
}

fn leave_out(
    name: &str,
    rows: &[MeasuredPlan],
    all_reduce: &AllReduceTimes,
    fits: impl Fn(&MeasuredPlan) -> bool,
) -> Result<()> {
    let (fitted, others): (Vec<MeasuredPlan>, Vec<MeasuredPlan>) = rows.iter().partition(|row| fits(row));
    line(name, &[score(fitted, &others, all_reduce)?]);
    Ok(())
}

fn score(rows: Vec<MeasuredPlan>, others: &[MeasuredPlan], all_reduce: &AllReduceTimes) -> Result<Score> {
    let model = StepModel::fit(rows, all_reduce.clone())?;
    let predicted: Vec<_> = others.iter().map(|row| (row.step_ms, model.predict(&row.plan))).collect();
    let errors = predicted.iter().map(|(truth, step)| 100.0 * (step.step_ms / truth - 1.0).abs());
    let mut intervals: [IntervalScore; 2] = Default::default();
    for (truth, step) in &predicted {
        let is_new = !step.unmeasured.is_empty() || !step.never_together.is_empty();
        let (low, high) = step.interval_ms;
        let own = &mut intervals[usize::from(is_new)];
        own.rows += 1.0;
        own.held += f64::from((low..=high).contains(truth));
        own.width += 50.0 * (high - low) / step.step_ms;
    }
    let count = predicted.len() as f64;
    Ok(Score {
        error: errors.clone().sum::<f64>() / count,
        worst: errors.fold(0.0, f64::max),
        held: 100.0 * intervals.iter().map(|own| own.held).sum::<f64>() / count,
        intervals,
    })
}

fn line(name: &str, scores: &[Score]) {
    let mean = |value: fn(&Score) -> f64| scores.iter().map(value).sum::<f64>() / scores.len() as f64;
    let error = mean(|score| score.error);
    let few = scores.iter().filter(|score| score.held < 85.0).count();
    let [measured, others] = [0, 1].map(|which| {
        let sum =
            |value: fn(&IntervalScore) -> f64| scores.iter().map(|score| value(&score.intervals[which])).sum::<f64>();
        let rows = sum(|own| own.rows).max(1.0);
        format!("± {:4.1} % hold {:5.1} %", sum(|own| own.width) / rows, 100.0 * sum(|own| own.held) / rows)
    });
    println!(
        "{name:28} error {error:5.2} %, worst row {:5.1} %, {:5.1} % inside ({few} of {} less than 85 %); measured combinations {measured}, others {others}",
        mean(|score| score.worst),
        mean(|score| score.held),
        scores.len(),
    );
}

//! Plans that were measured several times.

use perf4sight_base::error::{Error, Result};
use perf4sight_base::units::count_text;
use perf4sight_report::significant;
use std::collections::HashMap;
use std::hash::Hash;

/// Times of one plan that differ by more than this factor are no scatter of measurements.
const MOST_SCATTER: f64 = 3.0;
/// Steps of a job that is measured twice differ by about 3 %, where other programs run by 5 to 10 % (`docs/accuracy/replay.md`): beyond this factor
/// something other than noise differs.
const USUAL_SCATTER: f64 = 1.2;
/// So many pairs of rows are named.
const NAMED: usize = 2;

/// A measured plan, with its place in its file.
pub(crate) struct TimedPlan<Plan> {
    /// All that distinguishes it from other plans.
    pub plan: Plan,
    pub time: f64,
    /// "line 12".
    pub row: String,
    pub line: Option<usize>,
}

/// The shortest and the longest time of a plan, in the order of their rows.
type PlanPair<'a, Plan> = [&'a TimedPlan<Plan>; 2];

/// What to say of them: that each counts once, and which have times that are too far apart for noise.
///
/// # Errors
/// A plan whose times are so far apart that one is wrong.
pub(crate) fn check<Plan: Eq + Hash>(rows: &[TimedPlan<Plan>], unit: &str) -> Result<Vec<String>> {
    let mut pairs = pairs(rows);
    pairs.sort_by(|one, other| time_ratio(other).total_cmp(&time_ratio(one)));
    if let Some(worst) = pairs.first().filter(|pair| time_ratio(pair) > MOST_SCATTER) {
        return Err(refusal(worst, unit));
    }
    let once = (pairs.len() < rows.len()).then(|| {
        format!(
            "{} measurements of {} are fitted: of each plan the median",
            rows.len(),
            count_text(pairs.len() as u64, "plan")
        )
    });
    pairs.retain(|pair| time_ratio(pair) > USUAL_SCATTER);
    Ok(once.into_iter().chain(far_apart(&pairs, unit)).collect())
}

/// Names the plans whose times are further apart than noise explains, the worst first.
fn far_apart<Plan>(pairs: &[PlanPair<'_, Plan>], unit: &str) -> Option<String> {
    if pairs.is_empty() {
        return None;
    }
    let named = pairs.iter().take(NAMED).map(|pair| {
        let [first, second] = pair.map(|one| format!("{} {unit} in {}", significant(one.time), one.row));
        format!("{first} and {second} ({} times)", significant(time_ratio(pair)))
    });
    let more = pairs.len().saturating_sub(NAMED) as u64;
    let named = named.chain((more > 0).then(|| count_text(more, "other"))).collect::<Vec<_>>().join("; ");
    Some(format!(
        "{} given more than once, with times that differ by more than {:.0} %, which noise does not explain: {named}. See which of them is right",
        if pairs.len() == 1 { "1 plan is".to_owned() } else { format!("{} plans are", pairs.len()) },
        100.0 * (USUAL_SCATTER - 1.0)
    ))
}

fn refusal<Plan>([first, second]: &PlanPair<'_, Plan>, unit: &str) -> Error {
    let problem = match second.line {
        Some(_) => format!("this plan takes {} {unit} here, and {} {unit} in {}", second.time, first.time, first.row),
        None => format!("{} takes {} {unit}, and {} {unit} in {}", second.row, second.time, first.time, first.row),
    };
    let error = Error::input(problem).expected(format!("times of one plan within a factor of {MOST_SCATTER}"));
    second.line.into_iter().fold(error, Error::line)
}

/// Each plan once, in the order of first rows, with all that rows hold of it. A fit takes a plan's median: rows of one plan are off together, and
/// as so many plans they would make intervals of all others too narrow.
pub(crate) fn each_once<Plan: Eq + Hash + Copy, Value>(
    rows: impl IntoIterator<Item = (Plan, Value)>,
) -> Vec<(Plan, Vec<Value>)> {
    let mut places: HashMap<Plan, usize> = HashMap::new();
    let mut plans: Vec<(Plan, Vec<Value>)> = Vec::new();
    for (plan, value) in rows {
        let place = *places.entry(plan).or_insert_with(|| {
            plans.push((plan, Vec::new()));
            plans.len() - 1
        });
        plans[place].1.push(value);
    }
    plans
}

/// A pair for each plan, in the order of the plans' first rows; of each the earlier row first.
fn pairs<Plan: Eq + Hash>(rows: &[TimedPlan<Plan>]) -> Vec<PlanPair<'_, Plan>> {
    let of_plan = |(_, places): (_, Vec<usize>)| {
        let by_time = |one: &usize, other: &usize| rows[*one].time.total_cmp(&rows[*other].time);
        let shortest = places.iter().copied().min_by(by_time)?;
        let longest = places.iter().copied().rev().max_by(by_time)?;
        Some([&rows[shortest.min(longest)], &rows[shortest.max(longest)]])
    };
    let rows = rows.iter().enumerate().map(|(place, row)| (&row.plan, place));
    each_once(rows).into_iter().filter_map(of_plan).collect()
}

fn time_ratio<Plan>([one, other]: &PlanPair<'_, Plan>) -> f64 {
    (one.time / other.time).max(other.time / one.time)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warnings(times: &[(&'static str, f64)]) -> Result<Vec<String>> {
        let row = |(at, &(plan, time)): (usize, &(&'static str, f64))| TimedPlan {
            plan,
            time,
            row: format!("line {}", at + 2),
            line: Some(at + 2),
        };
        check(&times.iter().enumerate().map(row).collect::<Vec<_>>(), "ms")
    }

    /// 10 % apart are noise, 30 and 80 % are not, however far apart the rows; other plans may take what they like.
    #[test]
    fn times_of_one_plan_that_noise_does_not_explain_are_named() {
        assert_eq!(warnings(&[("a", 100.0), ("b", 300.0)]).unwrap(), Vec::<String>::new());
        let noise = warnings(&[("a", 100.0), ("b", 300.0), ("a", 110.0)]).unwrap();
        assert_eq!(noise, ["3 measurements of 2 plans are fitted: of each plan the median"]);
        let [_, one] = &warnings(&[("a", 130.0), ("b", 300.0), ("a", 110.0), ("a", 100.0)]).unwrap()[..] else {
            panic!()
        };
        assert!(
            one.contains("1 plan is") && one.contains("130 ms in line 2 and 100 ms in line 5 (1.30 times)"),
            "{one}"
        );
        let all = [("a", 100.0), ("a", 130.0), ("b", 200.0), ("b", 360.0), ("c", 100.0), ("c", 150.0)];
        let [_, three] = &warnings(&all).unwrap()[..] else { panic!() };
        let worst_first = "200 ms in line 4 and 360 ms in line 5 (1.80 times); 100 ms in line 6 and 150 ms in line 7";
        assert!(three.contains("3 plans are") && three.contains(worst_first) && three.contains("1 other"), "{three}");
        let refused = warnings(&[("a", 100.0), ("a", 310.0)]).unwrap_err().to_string();
        assert!(refused.contains("takes 310 ms here, and 100 ms in line 2"), "{refused}");
    }
}

//! The range and the ticks of one axis: round numbers after P. S. Heckbert, "Nice numbers for graph labels" (Graphics Gems, 1990).

use crate::chart::{Axis, Scale};
use crate::table::significant;

/// Ticks beyond which an axis is crowded.
const MOST: usize = 8;
/// Share of the range left free at either end, so that no marker is cut.
const MARGIN: f64 = 0.04;

/// An axis with its range; positions along it are values, or their decimal logarithms.
#[derive(Debug, Clone)]
pub struct Ruler {
    pub label: String,
    pub low: f64,
    pub high: f64,
    /// Position and text.
    pub ticks: Vec<(f64, String)>,
    /// Whether a line across the plot marks each tick.
    pub lines: bool,
    scale: Scale,
}

impl Ruler {
    /// Spans the values, with a margin.
    pub fn around(axis: &Axis, values: impl Iterator<Item = f64>) -> Self {
        let (low, high) = extent(values.filter_map(|value| axis.scale.position(value)));
        let margin = (high - low) * MARGIN;
        Self::spanning(axis, low - margin, high + margin)
    }

    /// Spans the values and no more.
    pub fn within(axis: &Axis, values: impl Iterator<Item = f64>) -> Self {
        let (low, high) = extent(values.filter_map(|value| axis.scale.position(value)));
        Self::spanning(axis, low, high)
    }

    /// Spans zero and the values, to the next tick.
    pub fn from_zero(axis: &Axis, values: impl Iterator<Item = f64>) -> Self {
        let (_, high) = extent(values.filter(|value| *value > 0.0 && *value <= LARGEST).chain([0.0]));
        let step = step(high);
        Self::spanning(&Axis { scale: Scale::Linear, ..axis.clone() }, 0.0, (high / step - 1e-9).ceil() * step)
    }

    /// Spans zero and `most`, whatever the values are.
    pub fn up_to(axis: &Axis, most: f64) -> Self {
        Self::spanning(&Axis { scale: Scale::Linear, ..axis.clone() }, 0.0, most)
    }

    /// Spans the values with a tick at each one, where these are few and far apart enough to be read.
    pub fn at_values(axis: &Axis, values: impl Iterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.filter(|value| axis.scale.position(*value).is_some()).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        let mut ruler = Self::around(axis, values.iter().copied());
        let ticks = labelled(axis.scale, values);
        let closest = ticks.windows(2).map(|pair| pair[1].0 - pair[0].0).fold(f64::INFINITY, f64::min);
        if closest >= (ruler.high - ruler.low) / (2 * MOST) as f64 {
            ruler.ticks = ticks;
        }
        ruler
    }

    /// Names at equal distances, one unit each, from the top of a vertical axis.
    pub fn of_names(names: &[String]) -> Self {
        let count = names.len().max(1) as f64;
        let ticks = names.iter().enumerate().map(|(i, name)| (count - 0.5 - i as f64, name.clone())).collect();
        Ruler { label: String::new(), low: 0.0, high: count, ticks, lines: false, scale: Scale::Linear }
    }

    /// Where a value lies; `None` where this axis cannot show it.
    pub fn position(&self, value: f64) -> Option<f64> {
        self.scale.position(value)
    }

    /// How far along a position lies, from 0 to 1.
    pub fn share(&self, position: f64) -> f64 {
        (position - self.low) / (self.high - self.low)
    }

    /// A value as exactly as it takes to find it: to a ten-thousandth of the range.
    pub fn near(&self, value: f64) -> String {
        let decimals = (4.0 - (self.high - self.low).log10()).clamp(0.0, 9.0) as usize;
        format!("{value:.decimals$}")
    }

    /// The value at a position.
    pub fn value(&self, position: f64) -> f64 {
        match self.scale {
            Scale::Linear => position,
            Scale::Log => 10f64.powf(position),
        }
    }

    fn spanning(axis: &Axis, low: f64, high: f64) -> Self {
        let inside = |value: &f64| {
            let slack = (high - low) * 1e-9;
            axis.scale.position(*value).is_some_and(|at| (low - slack..=high + slack).contains(&at))
        };
        let values: Vec<f64> = match axis.scale {
            Scale::Linear => even_ticks(low, high),
            Scale::Log => log_ticks(low, high),
        };
        let ticks = labelled(axis.scale, values.into_iter().filter(inside).collect());
        Ruler { label: axis.label.clone(), low, high, ticks, lines: true, scale: axis.scale }
    }
}

/// The largest number that an axis shows: the distance of two such numbers is a number still.
const LARGEST: f64 = f64::MAX / 8.0;

impl Scale {
    fn position(self, value: f64) -> Option<f64> {
        match self {
            Scale::Linear => (value.abs() <= LARGEST).then_some(value),
            Scale::Log => (value.is_finite() && value > 0.0).then(|| value.log10()),
        }
    }
}

fn labelled(scale: Scale, values: Vec<f64>) -> Vec<(f64, String)> {
    values.into_iter().filter_map(|value| scale.position(value).map(|at| (at, tick_text(value)))).collect()
}

/// Smallest and largest, moved apart where they are equal; 0 to 1 where there is nothing.
fn extent(positions: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = positions.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), at| (low.min(at), high.max(at)));
    match low.partial_cmp(&high) {
        Some(std::cmp::Ordering::Less) => (low, high),
        Some(std::cmp::Ordering::Equal) if low == 0.0 => (0.0, 1.0),
        Some(std::cmp::Ordering::Equal) => (low - low.abs() * 0.1, high + high.abs() * 0.1),
        _ => (0.0, 1.0),
    }
}

/// 1, 2 or 5 times a power of ten, so that a range of that length holds 4 to 8 of it.
fn step(length: f64) -> f64 {
    let power = 10f64.powf((length / MOST as f64).log10().floor());
    let fits = [1.0, 2.0, 5.0].into_iter().find(|digit| length / (digit * power) <= MOST as f64);
    fits.unwrap_or(10.0) * power
}

fn even_ticks(low: f64, high: f64) -> Vec<f64> {
    let step = step(high - low);
    let (first, last) = ((low / step).ceil() as i64, (high / step + 1e-9).floor() as i64);
    (first..=last).map(|i| i as f64 * step).collect()
}

/// Powers of ten and as many digits between them as there is room for; even ticks where the range is short.
fn log_ticks(low: f64, high: f64) -> Vec<f64> {
    let choices: [&[f64]; 5] =
        [&[1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0], &[1.0, 2.0, 3.0, 5.0], &[1.0, 2.0, 5.0], &[1.0, 3.0], &[1.0]];
    let between = |digits: &[f64]| -> Vec<f64> {
        let powers = low.floor() as i32..=high.ceil() as i32;
        let all = powers.flat_map(|power| digits.iter().map(move |digit| digit * 10f64.powi(power)));
        all.filter(|value| (low..=high).contains(&value.log10())).collect()
    };
    let room = (high - low) / (2 * MOST) as f64;
    let roomy =
        |ticks: &Vec<f64>| ticks.len() <= MOST && ticks.windows(2).all(|pair| (pair[1] / pair[0]).log10() >= room);
    match choices.into_iter().map(between).find(roomy) {
        Some(ticks) if ticks.len() >= 3 => ticks,
        Some(_) => even_ticks(10f64.powf(low), 10f64.powf(high)),
        None => between(&[1.0]),
    }
}

/// A number without decimals that say nothing.
pub fn tick_text(value: f64) -> String {
    let text = significant(value);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(ruler: &Ruler) -> Vec<&str> {
        ruler.ticks.iter().map(|(_, text)| text.as_str()).collect()
    }

    #[test]
    fn ticks_are_round_numbers() {
        assert_eq!(texts(&Ruler::from_zero(&Axis::linear(""), [17.3].into_iter())), ["0", "5", "10", "15", "20"]);
        assert_eq!(
            texts(&Ruler::around(&Axis::log(""), [3.0, 4000.0].into_iter())),
            ["3", "10", "30", "100", "300", "1,000", "3,000"]
        );
        assert_eq!(
            texts(&Ruler::around(&Axis::log(""), [120.0, 150.0].into_iter())),
            ["120", "125", "130", "135", "140", "145", "150"]
        );
    }

    #[test]
    fn few_values_are_ticks_themselves_but_never_crowd() {
        let batches = [1.0, 2.0, 8.0, 32.0];
        assert_eq!(texts(&Ruler::at_values(&Axis::log(""), batches.into_iter())), ["1", "2", "8", "32"]);
        assert_eq!(texts(&Ruler::at_values(&Axis::linear(""), batches.into_iter())).first(), Some(&"0"));
    }

    #[test]
    fn nothing_to_show_is_no_failure() {
        for values in [vec![], vec![f64::NAN], vec![0.0], vec![-1.0, 0.0], vec![5.0]] {
            for axis in [Axis::linear(""), Axis::log("")] {
                for ruler in
                    [Ruler::around(&axis, values.iter().copied()), Ruler::from_zero(&axis, values.iter().copied())]
                {
                    assert!(ruler.low < ruler.high && ruler.ticks.len() < 20, "{values:?} {ruler:?}");
                }
            }
        }
    }
}

//! Draws axes, grid and labels with plotters' chart builder, and converts values to positions between them.

use super::backend::{pixels, style, text_style, units};
use super::{Drawing, DrawnMark, FONT, PixelArea, PixelPoint, TextAnchor, text_width};
use crate::chart::{Axis, AxisScale};
use crate::table::significant;
use crate::theme::Ink;
use plotters::chart::{ChartBuilder, ChartContext};
use plotters::coord::cartesian::Cartesian2d;
use plotters::coord::ranged1d::{BoldPoints, KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use plotters::drawing::{DrawingAreaErrorKind, IntoDrawingArea};
use plotters::series::LineSeries;
use std::convert::Infallible;
use std::ops::Range;

const MOST: usize = 9;
/// Share of the range left free at either end, so that no marker is cut.
const MARGIN: f64 = 0.04;
/// The gap between an axis and its numbers, and between two numbers, in pixels.
const GAP: f64 = 8.0;
/// Height of the numbers below a plot, and of a label below or above it, in pixels.
const NUMBERS: f64 = 26.0;
const LABEL: f64 = 22.0;
/// The margin on the right, where the last number extends beyond its tick.
const RIGHT: f64 = 16.0;
/// The largest number that an axis shows, so that the difference of two such numbers is finite.
const LARGEST: f64 = f64::MAX / 8.0;

/// The range of an axis in positions: values, or their decimal logarithms.
#[derive(Debug, Clone)]
pub struct AxisExtent {
    pub low: f64,
    pub high: f64,
    axis: Axis,
    /// The ticks to use if their labels fit; otherwise ticks are at round numbers.
    preferred: Option<Vec<f64>>,
}

type Tick = (f64, String);

impl AxisExtent {
    /// The range of the values, with a margin.
    pub fn with_margin(axis: &Axis, values: impl Iterator<Item = f64>) -> Self {
        let AxisExtent { low, high, .. } = Self::without_margin(axis, values);
        let margin = (high - low) * MARGIN;
        Self::new(axis, low - margin, high + margin)
    }

    /// The range of the values without a margin: extended if all are equal, 0 to 1 if there are none.
    pub fn without_margin(axis: &Axis, values: impl Iterator<Item = f64>) -> Self {
        let positions = values.filter_map(|value| axis.scale.position(value));
        let (low, high) =
            positions.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), at| (low.min(at), high.max(at)));
        match low.partial_cmp(&high) {
            Some(std::cmp::Ordering::Less) => Self::new(axis, low, high),
            Some(std::cmp::Ordering::Equal) if low != 0.0 => {
                Self::new(axis, low - low.abs() * 0.1, high + high.abs() * 0.1)
            }
            _ => Self::new(axis, 0.0, 1.0),
        }
    }

    /// The range from zero to the first tick that covers the values.
    pub fn from_zero(axis: &Axis, values: impl Iterator<Item = f64>) -> Self {
        let values = values.filter(|value| *value > 0.0 && *value <= LARGEST);
        let high = Self::without_margin(&Axis::linear(""), values.chain([0.0])).high;
        let step = round_numbers(0.0, high, MOST - 1).get(1).copied().unwrap_or(high);
        Self::up_to(axis, (high / step - 1e-9).ceil() * step)
    }

    /// The range from zero to `most`, regardless of the values.
    pub fn up_to(axis: &Axis, most: f64) -> Self {
        Self::new(&Axis::linear(&axis.label), 0.0, most)
    }

    /// The range of the values with a margin and, if there is room, a tick at each value.
    pub fn at_values(axis: &Axis, values: impl Iterator<Item = f64> + Clone) -> Self {
        let mut preferred: Vec<f64> = values.clone().filter(|value| axis.scale.position(*value).is_some()).collect();
        preferred.sort_by(f64::total_cmp);
        preferred.dedup();
        AxisExtent { preferred: Some(preferred), ..Self::with_margin(axis, values) }
    }

    /// A range of `count` rows without ticks, each one unit high.
    pub fn rows(count: usize) -> Self {
        AxisExtent { preferred: Some(Vec::new()), ..Self::new(&Axis::linear(""), 0.0, count.max(1) as f64) }
    }

    fn new(axis: &Axis, low: f64, high: f64) -> Self {
        AxisExtent { low, high, axis: axis.clone(), preferred: None }
    }

    /// The relative position along the axis, from 0 to 1.
    pub fn share(&self, position: f64) -> f64 {
        (position - self.low) / (self.high - self.low)
    }

    /// The position of a value; `None` if this axis cannot show it.
    pub fn position(&self, value: f64) -> Option<f64> {
        self.axis.scale.position(value)
    }

    pub fn value(&self, position: f64) -> f64 {
        match self.axis.scale {
            AxisScale::Linear => position,
            AxisScale::Log => 10f64.powf(position),
        }
    }

    /// A value rounded to a ten-thousandth of the range.
    pub fn near(&self, value: f64) -> String {
        let decimals = (4.0 - (self.high - self.low).log10()).clamp(0.0, 9.0) as usize;
        format!("{value:.decimals$}")
    }

    /// The most ticks whose labels fit on `length` pixels; `size` is the size of a label along the axis.
    fn ticks(&self, length: f64, size: impl Fn(&str) -> f64) -> Vec<Tick> {
        let inside = |(at, _): &Tick| (-1e-9..=1.0 + 1e-9).contains(&self.share(*at));
        let labelled = |values: Vec<f64>| -> Vec<Tick> {
            let tick = |value: f64| self.position(value).map(|at| (at, tick_text(value)));
            values.into_iter().filter_map(tick).filter(inside).collect()
        };
        let fits = |ticks: &Vec<Tick>| {
            let apart = |(a, one): &Tick, (b, other): &Tick| {
                length * (self.share(*b) - self.share(*a)) >= (size(one) + size(other)) / 2.0 + GAP
            };
            ticks.windows(2).all(|pair| apart(&pair[0], &pair[1]))
        };
        self.candidates().into_iter().map(labelled).find(fits).unwrap_or_default()
    }

    /// Possible tick values, the longest list first.
    fn candidates(&self) -> Vec<Vec<f64>> {
        let (low, high) = (self.low, self.high);
        let fewer = |low: f64, high: f64| (1..=MOST).rev().map(move |count| round_numbers(low, high, count));
        let mut candidates: Vec<Vec<f64>> = self.preferred.clone().into_iter().collect();
        match self.axis.scale {
            AxisScale::Linear => candidates.extend(fewer(low, high)),
            AxisScale::Log => {
                let digits = DIGITS.iter().map(|digits| products_between(digits, low, high));
                candidates.extend(digits.filter(|values| (3..=MOST).contains(&values.len())));
                if high - low < 1.0 {
                    candidates.extend(fewer(self.value(low), self.value(high)));
                }
                let whole = |powers: Vec<f64>| powers.into_iter().filter(|power| power.fract() == 0.0);
                candidates
                    .extend(fewer(low, high).map(|powers| whole(powers).map(|power| 10f64.powf(power)).collect()));
            }
        }
        candidates
    }
}

/// The leading digits of ticks between two powers of ten.
const DIGITS: [&[f64]; 5] =
    [&[1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0], &[1.0, 2.0, 3.0, 5.0], &[1.0, 2.0, 5.0], &[1.0, 3.0], &[1.0]];

/// The products of these digits and powers of ten between two decimal logarithms.
fn products_between(digits: &[f64], low: f64, high: f64) -> Vec<f64> {
    let powers = low.floor() as i32..=high.ceil() as i32;
    let all = powers.flat_map(|power| digits.iter().map(move |digit| digit * 10f64.powi(power)));
    all.filter(|value| (low..=high).contains(&value.log10())).collect()
}

/// At most `count` round numbers, chosen by plotters; near the largest number plotters would loop forever.
fn round_numbers(low: f64, high: f64, count: usize) -> Vec<f64> {
    let range = Some(low..high).filter(|range| range.end - range.start <= 2.0 * LARGEST);
    let numbers = range.map(|range| RangedCoordf64::from(range).key_points(BoldPoints(count))).unwrap_or_default();
    // Rounding errors can make zero a tiny number.
    numbers.into_iter().map(|number| if number.abs() < 1e-9 * (high - low) { 0.0 } else { number }).collect()
}

impl AxisScale {
    fn position(self, value: f64) -> Option<f64> {
        match self {
            AxisScale::Linear => (value.abs() <= LARGEST).then_some(value),
            AxisScale::Log => (value.is_finite() && value > 0.0).then(|| value.log10()),
        }
    }
}

/// A number without trailing zeros.
pub fn tick_text(value: f64) -> String {
    let text = significant(value);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text,
    }
}

struct AxisCoordinate {
    range: RangedCoordf64,
    ticks: Vec<Tick>,
}

impl AxisCoordinate {
    fn new(extent: &AxisExtent, ticks: Vec<Tick>) -> Self {
        AxisCoordinate { range: (extent.low..extent.high).into(), ticks }
    }
}

impl Ranged for AxisCoordinate {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        self.range.map(value, limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        let bold = !hint.weight().allow_light_points();
        self.ticks.iter().filter(|_| bold).map(|(at, _)| *at).collect()
    }

    fn range(&self) -> Range<f64> {
        self.range.range()
    }
}

impl ValueFormatter<f64> for AxisCoordinate {
    fn format_ext(&self, value: &f64) -> String {
        self.ticks.iter().find(|(at, _)| at == value).map(|(_, label)| label.clone()).unwrap_or_default()
    }
}

pub struct Axes {
    pub x: AxisExtent,
    pub y: AxisExtent,
    pub area: PixelArea,
    chart: ChartContext<'static, Drawing, Cartesian2d<AxisCoordinate, AxisCoordinate>>,
}

impl Axes {
    /// The part of a drawing's height that the axes need.
    pub const HEIGHT: f64 = GAP + NUMBERS + LABEL;

    /// Draws both axes with their grid over the whole drawing, with room on the left for names that the caller draws.
    pub fn new(drawing: &Drawing, x: AxisExtent, y: AxisExtent, names: &[String]) -> Self {
        Self::build(drawing, x, y, names).expect("a drawing in memory takes every shape")
    }

    fn build(
        drawing: &Drawing,
        x: AxisExtent,
        y: AxisExtent,
        names: &[String],
    ) -> Result<Self, DrawingAreaErrorKind<Infallible>> {
        let top = if y.axis.label.is_empty() { GAP } else { LABEL + GAP };
        let y_ticks = y.ticks(drawing.height - top - NUMBERS - LABEL, |_| FONT);
        let labels = y_ticks.iter().map(|(_, label)| label).chain(names);
        let widest = labels.map(|label| text_width(label, FONT)).fold(0.0, f64::max);
        // Long names must leave room for the plot.
        let left = (widest + GAP).ceil().min(drawing.width / 2.0);
        let x_ticks = x.ticks(drawing.width - left - RIGHT, |label| text_width(label, FONT));
        // The last number is centred below its tick, which may be at the end of the axis.
        let right = x_ticks.last().map_or(0.0, |(_, label)| text_width(label, FONT) / 2.0 + 1.0).max(RIGHT);
        let mut chart = ChartBuilder::on(&drawing.clone().into_drawing_area())
            .margin_top(units(top))
            .margin_right(units(right))
            .x_label_area_size(units(NUMBERS + LABEL))
            .y_label_area_size(units(left))
            .build_cartesian_2d(AxisCoordinate::new(&x, x_ticks), AxisCoordinate::new(&y, y_ticks))?;
        chart
            .configure_mesh()
            .x_desc(&x.axis.label)
            .bold_line_style(style(Ink::GRID, 1.0))
            .axis_style(style(Ink::GRID, 1.0))
            .label_style(text_style(Ink::MUTED))
            .axis_desc_style(text_style(Ink::TEXT))
            .set_all_tick_mark_size(units(GAP / 2.0))
            .draw()?;
        drawing.add(DrawnMark::text(&y.axis.label, (0.0, LABEL / 2.0), TextAnchor::Start, Ink::TEXT));
        let (across, down) = chart.plotting_area().get_pixel_range();
        let area = PixelArea::new((pixels(across.start), pixels(down.start)), (pixels(across.end), pixels(down.end)));
        Ok(Axes { x, y, area, chart })
    }

    /// The positions of a pair of values; `None` if an axis cannot show one of them.
    pub fn positions(&self, x: f64, y: f64) -> Option<PixelPoint> {
        Some((self.x.position(x)?, self.y.position(y)?))
    }

    /// The point of a pair of values; `None` if an axis cannot show one of them.
    pub fn point_at(&self, x: f64, y: f64) -> Option<PixelPoint> {
        self.positions(x, y).map(|(x, y)| self.at_position(x, y))
    }

    /// A line through pairs of positions.
    pub fn line(&mut self, positions: Vec<PixelPoint>, ink: Ink) {
        let line = LineSeries::new(positions, style(ink, 1.5));
        self.chart.draw_series(line).expect("a drawing in memory takes every shape");
    }

    pub fn at_position(&self, x: f64, y: f64) -> PixelPoint {
        let PixelArea { left, bottom, .. } = self.area;
        (left + self.x.share(x) * self.area.width(), bottom - self.y.share(y) * self.area.height())
    }
}

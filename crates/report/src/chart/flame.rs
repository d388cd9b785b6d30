//! A flame graph that grows downwards: each call is below its caller and as wide as its time.

use super::{ACROSS, Axis, Draw, LegendEntry, Series, filled_legend};
use crate::drawing::{Axes, AxisExtent, Drawing, FONT, PixelArea};
use crate::table::significant;
use std::collections::HashMap;

/// A tree of calls.
#[derive(Debug, Clone, PartialEq)]
pub struct Flame {
    /// The meaning of widths.
    pub value: Axis,
    /// The total width; calls may fill less.
    pub whole: f64,
    /// Calls by category, each with a colour.
    pub series: Vec<Series<FlameCall>>,
}

/// A call of a function, with its caller.
#[derive(Debug, Clone, PartialEq)]
pub struct FlameCall {
    /// Its identifier over all categories; larger than that of its caller.
    pub number: usize,
    /// The number of its caller; none for an outermost call.
    pub under: Option<usize>,
    /// What is written on it.
    pub name: String,
    /// Its time without its callees.
    pub own: f64,
    /// Further text for its tooltip.
    pub remark: String,
}

const LEVEL: f64 = 18.0;
const LEVELS: usize = 60;
/// Narrower calls are not drawn, in pixels.
const NARROW: f64 = 1.5;
/// A call with a single significant callee is drawn as one frame with it, if the rest of its time is at most this
/// share.
const LITTLE: f64 = 0.005;

struct FlameNode<'a> {
    call: &'a FlameCall,
    category: usize,
    total: f64,
    /// Indices of its callees, the longest first.
    callees: Vec<usize>,
}

struct FlameTree<'a> {
    nodes: Vec<FlameNode<'a>>,
    outermost: Vec<usize>,
}

/// Calls drawn as one frame: each calls the next, and hardly anything else.
struct Frame {
    chain: Vec<usize>,
    from: f64,
    level: usize,
}

impl Draw for Flame {
    fn widths(&self) -> &'static [f64] {
        &ACROSS
    }

    fn draw(&self, width: f64) -> Drawing {
        let tree = FlameTree::new(self);
        // The axes leave this width.
        let least = NARROW * self.whole / (width - 2.0 * FONT);
        let (frames, hidden) = tree.frames(least);
        let levels = frames.iter().map(|one| one.level + 1).max().unwrap_or(1);
        let mut drawing = Drawing::new(width, Axes::HEIGHT + levels as f64 * LEVEL);
        let extent = AxisExtent::up_to(&self.value, if self.whole > 0.0 { self.whole } else { 1.0 });
        let axes = Axes::new(&drawing, extent, AxisExtent::rows(0), &[]);
        frames.iter().for_each(|one| self.draw_frame(&drawing, &axes, &tree, one));
        if let Some(hidden) = hidden {
            let share = significant(100.0 * hidden / self.whole);
            drawing.note = format!("Calls too short or too deep to be drawn, {share} % of the time, are left out.");
        }
        drawing
    }

    fn legend(&self) -> Vec<LegendEntry> {
        filled_legend(&self.series)
    }
}

impl Flame {
    fn draw_frame(&self, drawing: &Drawing, axes: &Axes, tree: &FlameTree, Frame { chain, from, level }: &Frame) {
        let nodes: Vec<&FlameNode> = chain.iter().map(|index| &tree.nodes[*index]).collect();
        let [first, .., last] = [nodes[0], nodes[nodes.len() - 1]];
        let x = |length: f64| axes.at_position(length, 0.0).0;
        let top = axes.area.top + *level as f64 * LEVEL;
        let area = PixelArea::new((x(*from), top + 0.5), (x(from + first.total) - 0.5, top + LEVEL - 0.5));
        let series = &self.series[last.category];
        let names: Vec<&str> = nodes.iter().map(|node| node.call.name.as_str()).collect();
        let (took, share) = (significant(first.total), significant(100.0 * first.total / self.whole));
        let mut tip = format!("{} ({}): {took} ({share} %)", names.join(" > "), series.name);
        if !last.call.remark.is_empty() {
            tip = format!("{tip}; {}", last.call.remark);
        }
        drawing.named_box(area, series.filling(last.category), tip, &last.call.name);
    }
}

impl<'a> FlameTree<'a> {
    fn new(flame: &'a Flame) -> Self {
        let finite = |call: &&FlameCall| call.own.is_finite() && call.own >= 0.0;
        let of_category = |(category, series): (usize, &'a Series<FlameCall>)| {
            let node = move |call| FlameNode { call, category, total: call.own, callees: Vec::new() };
            series.data.iter().filter(finite).map(node).collect::<Vec<_>>()
        };
        let mut nodes: Vec<FlameNode> = flame.series.iter().enumerate().flat_map(of_category).collect();
        nodes.sort_by_key(|node| node.call.number);
        nodes.dedup_by_key(|node| node.call.number);
        let indices: HashMap<usize, usize> = nodes.iter().enumerate().map(|(i, node)| (node.call.number, i)).collect();
        let mut outermost = Vec::new();
        for i in (0..nodes.len()).rev() {
            let caller = nodes[i].call.under.and_then(|under| indices.get(&under)).filter(|caller| **caller < i);
            match caller {
                Some(&caller) => {
                    nodes[caller].total += nodes[i].total;
                    nodes[caller].callees.push(i);
                }
                None => outermost.push(i),
            }
        }
        // The longest first; of equal ones, the one with the smaller number.
        let totals: Vec<f64> = nodes.iter().map(|node| node.total).collect();
        let sort = |calls: &mut Vec<usize>| calls.sort_by(|a, b| totals[*b].total_cmp(&totals[*a]).then(a.cmp(b)));
        sort(&mut outermost);
        nodes.iter_mut().for_each(|node| sort(&mut node.callees));
        FlameTree { nodes, outermost }
    }

    /// The frames to draw, and the time of the calls that are left out, if there are any.
    fn frames(&self, least: f64) -> (Vec<Frame>, Option<f64>) {
        let (mut frames, mut hidden) = (Vec::new(), None);
        let mut open: Vec<(usize, f64, usize)> = Vec::new();
        let push = |open: &mut Vec<_>, calls: &[usize], mut from: f64, level: usize| {
            for &call in calls {
                open.push((call, from, level));
                from += self.nodes[call].total;
            }
        };
        push(&mut open, &self.outermost, 0.0, 0);
        while let Some((call, from, level)) = open.pop() {
            let total = self.nodes[call].total;
            if total < least || total <= 0.0 || level >= LEVELS {
                hidden = Some(hidden.unwrap_or(0.0) + total);
                continue;
            }
            let chain = self.chain(call);
            push(&mut open, &self.nodes[chain[chain.len() - 1]].callees, from, level + 1);
            frames.push(Frame { chain, from, level });
        }
        (frames, hidden)
    }

    /// A call, followed by callees of the same category that take nearly all of its time.
    fn chain(&self, first: usize) -> Vec<usize> {
        let mut chain = vec![first];
        let mut at = &self.nodes[first];
        while let Some(&next) = at.callees.first() {
            let callee = &self.nodes[next];
            if callee.category != at.category || at.total - callee.total > LITTLE * at.total {
                break;
            }
            chain.push(next);
            at = callee;
        }
        chain
    }
}

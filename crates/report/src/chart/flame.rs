//! Who calls what, and how long it takes: each call below the one that makes it, as wide as its time. A flame graph that grows downwards.

use super::{Axis, COLUMN, Draw, Entry, Series, filled_legend};
use crate::drawing::{Area, Drawing, FONT, Frame, Ruler, cut};
use crate::table::{Cell, Column, significant};
use std::cmp::Ordering;
use std::collections::HashMap;

/// A tree of calls.
#[derive(Debug, Clone, PartialEq)]
pub struct Flame {
    /// What widths mean.
    pub value: Axis,
    /// The width of everything; calls may fill less.
    pub whole: f64,
    /// Calls by class.
    pub series: Vec<Series<Call>>,
}

/// A call.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// What others name it by, over all classes; larger than that of the call that makes it.
    pub number: usize,
    /// The call that makes it; none of an outermost one.
    pub under: Option<usize>,
    /// What is called.
    pub name: String,
    /// How long it takes without those that it makes.
    pub own: f64,
    /// What else there is to say, under the pointer.
    pub remark: String,
}

/// Height of a level in pixels.
const LEVEL: f64 = 18.0;
/// Levels beyond which nothing is drawn: the reader is told.
const LEVELS: usize = 60;
/// Narrower calls are not drawn, in pixels.
const SEEN: f64 = 1.5;
/// Calls wider than this may carry their name, in pixels.
const NAMED: f64 = 3.5 * FONT;
/// A call that does so little itself, as a share of its time, and makes one other call, is drawn with that.
const LITTLE: f64 = 0.005;

/// A call in the tree.
struct Node<'a> {
    call: &'a Call,
    class: usize,
    total: f64,
    /// Places of the calls that it makes, the longest first.
    makes: Vec<usize>,
}

/// The calls as a tree.
struct Tree<'a> {
    nodes: Vec<Node<'a>>,
    outermost: Vec<usize>,
}

/// Calls that are drawn as one box: each makes the next, and hardly anything else.
struct Drawn {
    /// Places in the tree.
    chain: Vec<usize>,
    from: f64,
    level: usize,
}

impl Draw for Flame {
    /// Across a page, and for a phone.
    fn widths(&self) -> &'static [f64] {
        &[2.0 * COLUMN, 400.0]
    }

    fn draw(&self, width: f64) -> Drawing {
        let tree = Tree::of(self);
        let axis = Ruler::up_to(&self.value, if self.whole > 0.0 { self.whole } else { 1.0 });
        // As much as the frame around it leaves.
        let least = SEEN * self.whole / (width - 2.0 * FONT);
        let (drawn, (hidden, lost)) = tree.laid_out(least);
        let levels = drawn.iter().map(|drawn| drawn.level + 1).max().unwrap_or(1);
        let mut drawing = Drawing::new(width, Frame::HEIGHT + levels as f64 * LEVEL);
        let frame = Frame::beside(&mut drawing, axis, Ruler::of_names(&[]), &[]);
        for one in &drawn {
            self.draw_call(&mut drawing, &frame, (&tree, one));
        }
        if hidden > 0 {
            let share = significant(100.0 * lost / self.whole);
            drawing.note = format!(
                "Calls too short or too deep to be seen, {share} % of the time, are not drawn: below what makes them nothing is."
            );
        }
        drawing
    }

    fn legend(&self) -> Vec<Entry> {
        filled_legend(&self.series)
    }

    fn numbers(&self) -> (Vec<Column>, Vec<Vec<Cell>>) {
        let columns = vec![
            Column::text("number", "call"),
            Column::text("under", "made by"),
            Column::text("class", "class"),
            Column::text("name", "name"),
            Column::number("own", "own"),
            Column::number("total", &self.value.label),
        ];
        let row = |node: &Node| {
            let (call, class) = (node.call, self.series[node.class].name.as_str());
            vec![
                call.number.into(),
                call.under.into(),
                class.into(),
                call.name.as_str().into(),
                call.own.into(),
                node.total.into(),
            ]
        };
        (columns, Tree::of(self).nodes.iter().map(row).collect())
    }
}

impl Flame {
    fn draw_call(&self, drawing: &mut Drawing, frame: &Frame, (tree, drawn): (&Tree, &Drawn)) {
        let (Some(first), Some(last)) = (drawn.chain.first(), drawn.chain.last()) else { return };
        let (total, last) = (tree.nodes[*first].total, &tree.nodes[*last]);
        let x = |length: f64| frame.at_position(length, 0.0).0;
        let top = frame.area.top + drawn.level as f64 * LEVEL;
        let area = Area::new((x(drawn.from), top + 0.5), (x(drawn.from + total) - 0.5, top + LEVEL - 0.5));
        let series = &self.series[last.class];
        let (ink, texture) = series.filling(last.class);
        let names: Vec<&str> = drawn.chain.iter().map(|place| tree.nodes[*place].call.name.as_str()).collect();
        let (took, share) = (significant(total), significant(100.0 * total / self.whole));
        let mut tip = format!("{} ({}): {took} ({share} %)", names.join(" > "), series.name);
        if !last.call.remark.is_empty() {
            tip = format!("{tip}; {}", last.call.remark);
        }
        drawing.fill(area, (ink, texture), tip);
        if area.width() >= NAMED {
            drawing.words_inside(area, &cut(&last.call.name, area.width() - 8.0), ink);
        }
    }
}

impl<'a> Tree<'a> {
    fn of(flame: &'a Flame) -> Self {
        let finite = |call: &&Call| call.own.is_finite() && call.own >= 0.0;
        let of_class = |(class, series): (usize, &'a Series<Call>)| {
            let node = move |call| Node { call, class, total: call.own, makes: Vec::new() };
            series.data.iter().filter(finite).map(node).collect::<Vec<_>>()
        };
        let mut nodes: Vec<Node> = flame.series.iter().enumerate().flat_map(of_class).collect();
        nodes.sort_by_key(|node| node.call.number);
        nodes.dedup_by_key(|node| node.call.number);
        let places: HashMap<usize, usize> =
            nodes.iter().enumerate().map(|(place, node)| (node.call.number, place)).collect();
        let mut outermost = Vec::new();
        for place in (0..nodes.len()).rev() {
            let maker = nodes[place].call.under.and_then(|under| places.get(&under)).filter(|maker| **maker < place);
            match maker {
                Some(&maker) => {
                    nodes[maker].total += nodes[place].total;
                    nodes[maker].makes.push(place);
                }
                None => outermost.push(place),
            }
        }
        let mut tree = Tree { nodes, outermost };
        tree.sort();
        tree
    }

    /// The longest first; of equal ones that with the smaller number.
    fn sort(&mut self) {
        let totals: Vec<f64> = self.nodes.iter().map(|node| node.total).collect();
        let longest = |a: &usize, b: &usize| -> Ordering { totals[*b].total_cmp(&totals[*a]).then(a.cmp(b)) };
        self.outermost.sort_by(longest);
        self.nodes.iter_mut().for_each(|node| node.makes.sort_by(longest));
    }

    /// What is drawn, and of what is not: how many stacks, and how long they take.
    fn laid_out(&self, least: f64) -> (Vec<Drawn>, (usize, f64)) {
        let (mut drawn, mut hidden, mut lost) = (Vec::new(), 0, 0.0);
        let mut open: Vec<(usize, f64, usize)> = Vec::new();
        let push = |open: &mut Vec<_>, places: &[usize], mut from: f64, level: usize| {
            for &place in places {
                open.push((place, from, level));
                from += self.nodes[place].total;
            }
        };
        push(&mut open, &self.outermost, 0.0, 0);
        while let Some((place, from, level)) = open.pop() {
            let total = self.nodes[place].total;
            if total < least || total <= 0.0 || level >= LEVELS {
                (hidden, lost) = (hidden + 1, lost + total);
                continue;
            }
            let chain = self.chain(place);
            if let Some(last) = chain.last() {
                push(&mut open, &self.nodes[*last].makes, from, level + 1);
            }
            drawn.push(Drawn { chain, from, level });
        }
        (drawn, (hidden, lost))
    }

    /// A call, and those of its class that each do nothing but make the next.
    fn chain(&self, first: usize) -> Vec<usize> {
        let mut chain = vec![first];
        let mut at = &self.nodes[first];
        while let Some(&next) = at.makes.first() {
            let made = &self.nodes[next];
            if made.class != at.class || at.total - made.total > LITTLE * at.total {
                break;
            }
            chain.push(next);
            at = made;
        }
        chain
    }
}

//! What the functions of a program hold: Python keeps a result that has a name, or was an argument, until the function returns.
//!
//! A file records which module each operation ran in, not which results had names. With [`KeptReading::Most`] all have one.

use super::graph::{Network, Node, NodeId};
use super::keeping::KeptReading;

/// Nobody gives more results of one function, but for views, names of their own: such functions use a name again, or are written by programs (`torch.fx`
/// lets go of each result after its last reader).
const NAMES: usize = 32;

/// One call of a module: its nodes run one after the other.
struct ModuleCall<'a> {
    name: &'a str,
    /// The call around it; the network's own is its own caller.
    caller: usize,
    depth: usize,
    last: usize,
}

/// The calls of modules, the network's own first, and for every node the innermost around it.
struct ModuleCalls<'a> {
    calls: Vec<ModuleCall<'a>>,
    around: Vec<usize>,
}

impl Network {
    /// For every node, the place of the one after which the program lets go of its result, if a function holds it for longer than
    /// operations read it.
    pub fn held_in_variables(&self) -> Vec<Option<usize>> {
        match self.keeping() {
            KeptReading::Most => self.variables(),
            KeptReading::Likely | KeptReading::Least => vec![None; self.nodes().len()],
        }
    }

    /// Whether a function may hold a result for longer than operations read it.
    pub fn may_hold_variables(&self) -> bool {
        self.variables().iter().any(Option::is_some)
    }

    fn variables(&self) -> Vec<Option<usize>> {
        if self.nodes().iter().all(|node| node.module.is_none()) {
            return vec![None; self.nodes().len()];
        }
        let calls = ModuleCalls::new(self);
        let readers = self.readers();
        let holder = |(id, node): (NodeId, &Node)| {
            // Data and parameters stay in any case.
            let is_made = !node.inputs.is_empty();
            is_made.then(|| calls.holder(id, &readers[id.index()], self.outputs().contains(&id)))
        };
        let holders: Vec<Option<usize>> = self.iter().map(holder).collect();
        let mut names = vec![0; calls.calls.len()];
        // Views are steps of one expression more often than names.
        let own = holders.iter().zip(self.nodes()).filter(|(_, node)| !self.is_view(node));
        own.filter_map(|(holder, _)| *holder).for_each(|call| names[call] += 1);
        let held = |(holder, readers): (&Option<usize>, &Vec<NodeId>)| {
            let call = holder.filter(|&call| names[call] <= NAMES)?;
            let until = calls.calls[call].last;
            readers.last().filter(|last| last.index() < until).map(|_| until)
        };
        holders.iter().zip(&readers).map(held).collect()
    }
}

impl<'a> ModuleCalls<'a> {
    fn new(network: &'a Network) -> Self {
        let whole = ModuleCall { name: "", caller: 0, depth: 0, last: 0 };
        let mut found = ModuleCalls { calls: vec![whole], around: Vec::with_capacity(network.nodes().len()) };
        let mut open = vec![0];
        for (id, node) in network.iter() {
            if let Some(path) = &node.module {
                found.enter_calls(&mut open, path);
            }
            open.iter().for_each(|&call| found.calls[call].last = id.index());
            found.around.push(open[open.len() - 1]);
        }
        found
    }

    /// Leaves the calls that are not on this path, and begins those that are.
    fn enter_calls(&mut self, open: &mut Vec<usize>, path: &'a str) {
        let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
        let same = open[1..].iter().zip(&names).take_while(|(call, name)| self.calls[**call].name == **name).count();
        open.truncate(same + 1);
        for &name in &names[same..] {
            let caller = open[open.len() - 1];
            open.push(self.calls.len());
            self.calls.push(ModuleCall { name, caller, depth: open.len() - 1, last: 0 });
        }
    }

    /// The function in which a result is made and read. Containers and loops over numbered modules name each result
    /// alike: one that only the next of them reads is there until that one returns.
    fn holder(&self, made: NodeId, readers: &[NodeId], is_result: bool) -> usize {
        let maker = self.around[made.index()];
        let within = readers.iter().fold(maker, |within, reader| self.common(within, self.around[reader.index()]));
        let within = if is_result { 0 } else { within };
        let next = self.call_below(maker, within).zip(self.next_reader(readers, within));
        let next = next.filter(|(own, next)| is_next(self.calls[*own].name, self.calls[*next].name));
        next.map_or(within, |(_, next)| next)
    }

    /// The one call within another in which all readers are.
    fn next_reader(&self, readers: &[NodeId], within: usize) -> Option<usize> {
        let mut calls = readers.iter().map(|reader| self.call_below(self.around[reader.index()], within));
        let first = calls.next()??;
        calls.all(|call| call == Some(first)).then_some(first)
    }

    /// The call around this one that the function of another makes.
    fn call_below(&self, call: usize, within: usize) -> Option<usize> {
        let mut callers = std::iter::successors(Some(call), |&call| Some(self.calls[call].caller));
        (call != within).then(|| callers.find(|&call| self.calls[call].caller == within)).flatten()
    }

    /// The innermost call around both.
    fn common(&self, mut one: usize, mut other: usize) -> usize {
        while one != other {
            let deeper = if self.calls[one].depth >= self.calls[other].depth { &mut one } else { &mut other };
            *deeper = self.calls[*deeper].caller;
        }
        one
    }
}

/// Whether a module comes after another in a list: `blocks.1` after `blocks.0`.
fn is_next(name: &str, next: &str) -> bool {
    let numbered = |name: &'_ str| -> Option<(String, u32)> {
        let (list, number) = name.rsplit_once('.').unwrap_or(("", name));
        Some((list.to_string(), number.parse().ok()?))
    };
    matches!((numbered(name), numbered(next)), (Some((list, one)), Some((other, two))) if list == other && two == one + 1)
}

#[cfg(test)]
mod tests {
    use crate::{Activation, BinaryFunction, KeptReading, Network, NetworkBuilder, Op, Shape};

    /// `a = exp(x); b = abs(a); c = b + 1; return sin(c)` in a module that another calls, each step in this module.
    fn chain(modules: [&str; 4]) -> Network {
        let mut builder = NetworkBuilder::new("chain", Shape::new([8]));
        let mut last = builder.input();
        let steps = [
            Op::Activation(Activation::Exp),
            Op::Activation(Activation::Abs),
            Op::Binary(BinaryFunction::Add),
            Op::Activation(Activation::Sin),
        ];
        for (number, (op, module)) in steps.into_iter().zip(modules).enumerate() {
            builder.set_module(Some(module));
            last = builder.add(number.to_string(), op, &[last]).unwrap();
        }
        builder.finish(last).as_keeping(KeptReading::Most)
    }

    fn held(network: &Network) -> Vec<Option<usize>> {
        network.held_in_variables()
    }

    #[test]
    fn a_function_may_hold_its_results_until_it_returns() {
        assert_eq!(held(&chain(["act"; 4])), [None, Some(4), Some(4), None, None]);
        let likely = chain(["act"; 4]).as_keeping(KeptReading::Likely);
        assert!(held(&likely).iter().all(Option::is_none) && likely.may_hold_variables());
        // The argument of a module is there until it returns, its own results no longer.
        assert_eq!(held(&chain(["", "act", "act", ""])), [None, Some(4), None, None, None]);
    }

    #[test]
    fn a_function_of_very_many_results_holds_none() {
        let mut builder = NetworkBuilder::new("flat", Shape::new([8]));
        let mut last = builder.input();
        for number in 0..40 {
            builder.set_module(Some(""));
            last = builder.add(number.to_string(), Op::Activation(Activation::Exp), &[last]).unwrap();
        }
        assert!(held(&builder.finish(last).as_keeping(KeptReading::Most)).iter().all(Option::is_none));
    }

    /// `for block in blocks: x = block(x)`.
    #[test]
    fn numbered_modules_hand_on_their_results() {
        let held = held(&chain(["blocks.0", "blocks.1", "blocks.1", "blocks.2"]));
        assert_eq!(held, [None, Some(3), None, None, None]);
    }
}

//! The most expensive calls by name: functions, operators, runtime calls, and the work of accelerators.

use crate::breakdown::RankBreakdown;
use crate::calls::stacks::CallStacks;
use crate::calls::{ScriptFunction, label};
use crate::categories::TimeCategory;
use crate::gpu::device::GpuWork;
use perf4sight_traces::intervals::Interval;
use perf4sight_traces::{EventCategory, Trace};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

/// The cost of all calls with one name in the iterations that count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallCost {
    pub name: String,
    /// Self time in nanoseconds: the time as the innermost call.
    pub own: i64,
    /// Nanoseconds including callees; of recursive calls only the outermost counts.
    pub total: i64,
    pub calls: u64,
}

/// The cost of all work of accelerators with one name in the iterations that count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkCost {
    pub name: String,
    pub work: GpuWork,
    /// Nanoseconds, summed over all streams.
    pub total: i64,
    /// The number of kernels, copies or memsets.
    pub calls: u64,
}

impl CallStacks {
    /// The costs of one kind of calls, those with the largest self time first.
    pub fn costs(&self, kind: EventCategory) -> Vec<CallCost> {
        let mut costs: BTreeMap<&str, CallCost> = BTreeMap::new();
        for frame in self.frames().iter().filter(|frame| frame.kind == kind) {
            let name = self.name(frame);
            let cost =
                costs.entry(name).or_insert_with(|| CallCost { name: name.to_owned(), own: 0, total: 0, calls: 0 });
            cost.own += frame.own;
            cost.calls += frame.calls;
            let callers = std::iter::successors(frame.parent, |at| self.frames()[*at as usize].parent);
            let mut callers = callers.map(|at| &self.frames()[at as usize]);
            if !callers.any(|caller| (caller.name, caller.kind) == (frame.name, kind)) {
                cost.total += frame.total;
            }
        }
        let mut costs: Vec<CallCost> = costs.into_values().collect();
        costs.sort_by_key(|cost| Reverse((cost.own, cost.total)));
        costs
    }
}

/// Parts of the paths of library files, which are not the script's own.
const LIBRARIES: [&str; 5] = ["site-packages", "dist-packages", "<frozen ", "/lib/python", "torch/"];
/// PyTorch's tracer leaves out folders of `sys.path`: files of packages then begin with their names. The last is of `perf4sight record`.
const PACKAGES: [&str; 10] = [
    "numpy",
    "scipy",
    "pandas",
    "PIL",
    "cv2",
    "sklearn",
    "torchvision",
    "torchaudio",
    "transformers",
    "perf4sight_recorder",
];
/// Modules of Python's own library, a name a line (`sys.stdlib_module_names` of Python 3.11).
const STANDARD_LIBRARY: &str = include_str!("standard_library.txt");

/// Whether a file is one of a library: `queue.py`, `json/decoder.py`, `/usr/lib/python3/dist-packages/x.py`.
fn is_of_library(file: &str) -> bool {
    let first = file.split('/').next().unwrap_or(file);
    let module = first.strip_suffix(".py").unwrap_or(first);
    let is_standard = || STANDARD_LIBRARY.lines().any(|name| name == module);
    LIBRARIES.iter().any(|part| file.contains(part)) || PACKAGES.contains(&module) || is_standard()
}

/// Whether an event is a function of the script.
fn is_of_script(name: &str) -> bool {
    ScriptFunction::parse(name).is_some_and(|function| !is_of_library(function.file))
}

impl CallStacks {
    /// Nanoseconds of a mean iteration in each function of the script, including callees, whoever calls it.
    pub(crate) fn script_functions(&self) -> HashMap<String, f64> {
        let iterations = self.iterations.max(1) as f64;
        let costs = self.costs(EventCategory::Python).into_iter().filter(|cost| is_of_script(&cost.name));
        costs.map(|cost| (cost.name, cost.total as f64 / iterations)).collect()
    }

    /// The category in which a function and its callees spend most time.
    pub(crate) fn main_category(&self, function: &str) -> Option<TimeCategory> {
        let mut times: BTreeMap<TimeCategory, i64> = BTreeMap::new();
        let mut within: Vec<bool> = Vec::with_capacity(self.frames().len());
        for frame in self.frames() {
            let inside = frame.parent.is_some_and(|parent| within[parent as usize])
                || frame.kind == EventCategory::Python && self.name(frame) == function;
            within.push(inside);
            *times.entry(frame.category).or_default() += if inside { frame.own } else { 0 };
        }
        times.into_iter().max_by_key(|(_, time)| *time).map(|(category, _)| category)
    }

    /// The innermost function of the script that takes more than a share of the time, with its nanoseconds including
    /// callees, whoever calls it.
    pub(crate) fn dominant_function(&self, share: f64) -> Option<(ScriptFunction<'_>, i64)> {
        let costs = self.costs(EventCategory::Python).into_iter();
        let large = costs.filter(|cost| cost.total as f64 > share * self.window as f64 && is_of_script(&cost.name));
        let large: HashMap<String, i64> = large.map(|cost| (cost.name, cost.total)).collect();
        // Two that take more than half each overlap, so that one calls the other. The innermost is the one that has most time outside of the others.
        let mut innermost: BTreeMap<&str, i64> = BTreeMap::new();
        let mut nearest: Vec<Option<&str>> = Vec::with_capacity(self.frames().len());
        for frame in self.frames() {
            let name =
                Some(self.name(frame)).filter(|name| frame.kind == EventCategory::Python && large.contains_key(*name));
            let name = name.or_else(|| frame.parent.and_then(|parent| nearest[parent as usize]));
            nearest.push(name);
            name.into_iter().for_each(|name| *innermost.entry(name).or_default() += frame.own);
        }
        let (name, _) = innermost.into_iter().max_by_key(|(_, own)| *own)?;
        Some((ScriptFunction::parse(name)?, large[name]))
    }
}

/// The largest number of names; those with the least time are left out.
const NAMES: usize = 10_000;

/// The work of a rank's accelerators in the iterations that count, the longest first.
pub fn work_costs(trace: &Trace, rank: &RankBreakdown) -> Vec<WorkCost> {
    let windows: Vec<Interval> = rank.counted_iterations().map(|iteration| iteration.window).collect();
    let mut costs: HashMap<(u32, GpuWork), (i64, u64)> = HashMap::new();
    for event in trace.events.iter().filter(|event| event.category.on_device()) {
        let Some(work) = GpuWork::from_event(trace, event) else { continue };
        let first = windows.partition_point(|(_, end)| *end <= event.start);
        let during = windows[first..].iter().take_while(|(begin, _)| *begin < event.end());
        let time: i64 = during.map(|(begin, end)| event.end().min(*end) - event.start.max(*begin)).sum();
        if time > 0 {
            let cost = costs.entry((event.name.index() as u32, work)).or_default();
            *cost = (cost.0 + time, cost.1 + 1);
        }
    }
    let names: Vec<&str> = trace.names.all().map(|(_, name)| name).collect();
    let mut costs: Vec<((u32, GpuWork), (i64, u64))> = costs.into_iter().collect();
    costs.sort_unstable_by_key(|&((name, work), (total, _))| (Reverse(total), names[name as usize], work));
    costs.truncate(NAMES);
    let cost = |((name, work), (total, calls))| WorkCost { name: label(names[name as usize]), work, total, calls };
    costs.into_iter().map(cost).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_libraries_are_told_from_those_of_the_script() {
        let of_libraries = [
            "threading.py",
            "json/decoder.py",
            "numpy/core/fromnumeric.py",
            "perf4sight_recorder/hooks.py",
            "torch/utils/data/dataloader.py",
            "/usr/lib/python3/dist-packages/x.py",
            "<frozen importlib._bootstrap>",
        ];
        assert!(of_libraries.into_iter().all(is_of_library));
        assert!(
            !["train.py", "my/queue.py", "/home/me/numpy_like.py", "data/loader.py"].into_iter().any(is_of_library)
        );
    }
}

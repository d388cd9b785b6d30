//! Chakra traces (`.et`, or JSON), one of each rank: operations, how long each takes, and which it waits for. Where they have no
//! times, all ranks are replayed together to find out when each operation ran.

mod json;
mod messages;
mod schedule;

pub(super) use json::KEY;

use super::{contents, last_number, read_each};
use messages::{ChakraOperation, RECEIVE, SEND};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::units::count_text;
use perf4sight_traces::intervals::Interval;
use perf4sight_traces::{CollectiveArguments, DamageKind, EventCategory, NewEvent, RankTrace, TraceBuilder};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

/// The operations of a rank.
struct ChakraRank {
    number: u32,
    file: PathBuf,
    nodes: Vec<ChakraOperation>,
    /// The indices of what each operation waits for.
    before: Vec<Vec<usize>>,
    warnings: Vec<String>,
    cut: Option<String>,
}

/// What ranks exchange together: process group or ends, kind, and how often that was before.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct ExchangeKey {
    group: String,
    kind: &'static str,
    peers: [Option<u32>; 2],
    tag: u64,
    nth: usize,
}

/// Reads the traces of a job.
///
/// # Errors
/// A file that is no Chakra trace, two of one rank, operations that wait for each other, a trace without durations.
pub(super) fn read(files: &[PathBuf]) -> Result<Vec<RankTrace>> {
    let mut ranks: BTreeMap<u32, ChakraRank> = BTreeMap::new();
    let (read, unreadable) = read_each(files, |file, place| read_rank(file, last_number(file).unwrap_or(place)))?;
    for rank in read {
        if let Some(other) = ranks.get(&rank.number) {
            let (number, other) = (rank.number, other.file.display());
            return Err(Error::input(format!("is of rank {number}, as {other} is")).file(&rank.file));
        }
        ranks.insert(rank.number, rank);
    }
    let ranks: Vec<ChakraRank> = ranks.into_values().collect();
    if let Some(timeless) = ranks.iter().find(|rank| rank.nodes.iter().all(|node| node.duration() == 0)) {
        return Err(Error::input("has no durations: it says what runs, not how long it takes")
            .file(&timeless.file)
            .help("convert it from a trace of the profiler (chakra_trace_link, chakra_converter)"));
    }
    refuse_endless(&ranks)?;
    let recorded = ranks.iter().all(ChakraRank::has_times);
    let times = if recorded { ranks.iter().map(ChakraRank::times).collect() } else { schedule::times(&ranks)? };
    if recorded {
        ranks.iter().try_for_each(schedule::refuse_cycles)?;
    }
    let mut traces: Vec<RankTrace> =
        ranks.iter().zip(times).map(|(rank, times)| rank.trace(&times, recorded)).collect();
    traces.iter_mut().take(1).for_each(|first| first.trace.damage.of_other_files.extend(unreadable.iter().cloned()));
    Ok(traces)
}

/// Refuses operations that take longer, one after the other, than 64 bits of nanoseconds hold.
fn refuse_endless(ranks: &[ChakraRank]) -> Result<()> {
    let nodes = || ranks.iter().flat_map(|rank| rank.nodes.iter().map(move |node| (rank, node)));
    let all = nodes().fold(0u64, |all, (_, node)| all.saturating_add(node.duration()));
    match nodes().max_by_key(|(_, node)| node.duration()).filter(|_| all > i64::MAX.cast_unsigned()) {
        Some((rank, longest)) => {
            let problem = format!("operations take 292 years or more, node {} most", longest.id);
            Err(Error::input(problem).file(&rank.file).expected("durations in microseconds"))
        }
        None => Ok(()),
    }
}

fn read_rank(file: &Path, number: u32) -> Result<ChakraRank> {
    let contents = contents::read(file)?;
    let is_json = file.extension().is_none_or(|extension| extension != "et");
    let read = if is_json {
        json::nodes(&contents.bytes).map(|nodes| (nodes, None))
    } else {
        messages::nodes(&contents.bytes)
    };
    let (nodes, cut) = read.map_err(|error| error.file(file))?;
    let mut places: HashMap<u64, usize> = HashMap::new();
    for (place, node) in nodes.iter().enumerate() {
        if places.insert(node.id, place).is_some() {
            return Err(Error::input(format!("has two nodes with the id {}", node.id)).file(file));
        }
    }
    let mut lost: Vec<(u64, u64)> = Vec::new();
    let before = |node: &ChakraOperation| {
        let all = node.control.iter().chain(&node.data);
        let known = all.filter_map(|id| {
            places.get(id).copied().or_else(|| {
                lost.push((node.id, *id));
                None
            })
        });
        let mut known: Vec<usize> = known.collect();
        known.sort_unstable();
        known.dedup();
        known
    };
    let before = nodes.iter().map(before).collect();
    let warning = lost.first().map(|(node, on)| {
        let dependencies = count_text(lost.len() as u64, "dependency").replace("dependencys", "dependencies");
        format!("{dependencies} on nodes that the file does not have: node {node} waits for {on}, and more may be lost with it")
    });
    Ok(ChakraRank {
        number,
        file: file.to_owned(),
        nodes,
        before,
        warnings: warning.into_iter().collect(),
        cut: cut.or(contents.cut),
    })
}

impl ChakraRank {
    /// Whether most operations that take time have one at which they began.
    fn has_times(&self) -> bool {
        let timed = self.nodes.iter().filter(|node| node.start_micros > 0).count();
        2 * timed > self.nodes.iter().filter(|node| node.duration() > 0).count()
    }

    /// When each operation ran, as recorded.
    fn times(&self) -> Vec<Option<Interval>> {
        let time = |node: &ChakraOperation| {
            let start = i64::try_from(node.start_micros.checked_mul(1000)?).ok().filter(|start| *start > 0)?;
            Some((start, start.checked_add_unsigned(node.duration())?))
        };
        self.nodes.iter().map(time).collect()
    }

    /// What each operation exchanges, in the order of the ids.
    fn meetings(&self) -> HashMap<usize, ExchangeKey> {
        let mut order: Vec<usize> = (0..self.nodes.len()).collect();
        order.sort_by_key(|place| self.nodes[*place].id);
        let mut seen: HashMap<ExchangeKey, usize> = HashMap::new();
        let mut meetings = HashMap::new();
        for place in order {
            let node = &self.nodes[place];
            let Some(kind) = node.exchange() else { continue };
            let rank = |name: &str| node.number(name).and_then(|rank| u32::try_from(rank).ok());
            let is_pair = kind == "send" || kind == "recv";
            let ends = [
                rank("comm_src").or((node.kind == SEND).then_some(self.number)),
                rank("comm_dst").or((node.kind == RECEIVE).then_some(self.number)),
            ];
            let mut meeting = ExchangeKey {
                group: node.text("pg_name").unwrap_or_default(),
                kind: if is_pair { "send and receive" } else { kind },
                peers: if is_pair { ends } else { [None; 2] },
                tag: node.number("comm_tag").unwrap_or(0),
                nth: 0,
            };
            let nth = seen.entry(meeting.clone()).or_default();
            meeting.nth = *nth;
            *nth += 1;
            meetings.insert(place, meeting);
        }
        meetings
    }

    /// The operations as events.
    fn trace(&self, times: &[Option<Interval>], recorded: bool) -> RankTrace {
        let mut builder = TraceBuilder::new(&self.file);
        builder.header().rank = Some(self.number);
        builder.header().calculated = !recorded;
        builder.damage().others.extend(self.warnings.iter().cloned());
        builder.damage().truncated =
            self.cut.as_ref().map(|cut| format!("the trace is cut off or damaged: {cut}; what is before was read"));
        if !recorded {
            let sentence = "the trace has no times: when each operation ran was calculated from their durations and what they wait for";
            builder.damage().others.push(sentence.to_owned());
        }
        let meetings = self.meetings();
        let event = |(place, time): (usize, &Option<Interval>)| {
            let node = &self.nodes[place];
            let damage = match time {
                _ if node.is_negative() => Some(DamageKind::NegativeDuration),
                None if node.duration() > 0 => Some(DamageKind::Timeless),
                None | Some(_) => None,
            };
            if let Some(kind) = damage {
                builder.damage().note(kind, None);
                return None;
            }
            let thread = self.thread(place);
            let category = if self.is_on_cpu(place) { EventCategory::Operator } else { EventCategory::Kernel };
            let collective = meetings.get(&place).map(|meeting| collective(node, meeting));
            builder.add(NewEvent { name: &node.name, category, track: ["chakra", &thread], time: (*time)?, collective })
        };
        let events: Vec<Option<u32>> = times.iter().enumerate().map(event).collect();
        for (place, event) in events.iter().enumerate() {
            let Some(event) = *event else { continue };
            self.awaited(place, &events).into_iter().for_each(|on| builder.depend(on, event));
        }
        RankTrace { rank: self.number, trace: builder.finish() }
    }

    /// The events that an operation waits for; what has no event passes on what it waits for itself.
    fn awaited(&self, place: usize, events: &[Option<u32>]) -> BTreeSet<u32> {
        let (mut found, mut seen) = (BTreeSet::new(), BTreeSet::new());
        let mut open = self.before[place].clone();
        while let Some(on) = open.pop() {
            match events[on] {
                Some(event) => _ = found.insert(event),
                None if seen.insert(on) => open.extend(&self.before[on]),
                None => {}
            }
        }
        found
    }

    fn is_on_cpu(&self, place: usize) -> bool {
        let node = &self.nodes[place];
        node.exchange().is_none() && node.number("is_cpu_op").unwrap_or(1) == 1
    }

    /// The thread or stream of an operation.
    fn thread(&self, place: usize) -> String {
        let node = &self.nodes[place];
        let number = |name: &str| node.number(name).map_or(String::new(), |number| format!(" {number}"));
        match (node.exchange(), self.is_on_cpu(place)) {
            (Some(_), _) => "communication".to_owned(),
            (None, true) => format!("thread{}", number("tid")),
            (None, false) => format!("stream{}", number("stream")),
        }
    }
}

fn collective(node: &ChakraOperation, meeting: &ExchangeKey) -> CollectiveArguments {
    let mut hasher = DefaultHasher::new();
    meeting.hash(&mut hasher);
    CollectiveArguments {
        operation: node.exchange().unwrap_or_default().to_owned(),
        elements: node.number("comm_size").map(|bytes| [bytes; 2]),
        element_type: "byte".to_owned(),
        group: meeting.group.clone(),
        comms_id: Some(hasher.finish()),
        peers: meeting.peers,
        ..CollectiveArguments::default()
    }
}

//! Whom the leader accepts and refuses, and what both sides report: no job runs.

#![allow(clippy::unwrap_used)] // in a test it is the assertion

use super::gather::NodeGathering;
use super::{NodeSettings, job};
use crate::verb::Sensitivity;
use perf4sight_base::error::Result;
use perf4sight_machine::Deadline;
use perf4sight_machine::link::LinkListener;
use perf4sight_report::{Console, ConsoleSettings, OutputMode};
use perf4sight_verb::{Context, Summary, Verb};
use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

/// What a console writes.
#[derive(Clone, Default)]
struct ConsoleText(Arc<Mutex<Vec<u8>>>);

impl Write for ConsoleText {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl ConsoleText {
    fn console(&self) -> Console {
        let settings = ConsoleSettings { mode: OutputMode::Normal, colour: false, bars: false, width: None };
        Console::writing_to(settings, io::sink(), self.clone())
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

struct TestCluster {
    folder: TempDir,
    nodes: NodeSettings,
}

impl TestCluster {
    fn new(count: u32, wait: Duration) -> Self {
        let port = || TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
        let [master_port, port] = [port(), port()];
        let nodes =
            NodeSettings { count, rank: 0, master_addr: "127.0.0.1".to_owned(), master_port, port: Some(port), wait };
        TestCluster { folder: TempDir::new().unwrap(), nodes }
    }

    fn node(&self, rank: u32) -> Sensitivity {
        Sensitivity {
            command: vec!["sh".to_owned(), "job.sh".to_owned()],
            out: self.folder.path().join("sensitivity"),
            point_time: Duration::from_secs(60),
            nodes: Some(NodeSettings { rank, ..self.nodes.clone() }),
            ..Sensitivity::default()
        }
    }

    fn listener(&self) -> LinkListener {
        LinkListener::open(&self.nodes.master_addr, self.nodes.port()).unwrap()
    }

    fn gathering<'a>(&'a self, console: &'a Console) -> NodeGathering<'a> {
        NodeGathering::new(&self.nodes, job(&self.node(0), &self.nodes), console)
    }
}

fn run(asked: &Sensitivity, written: &ConsoleText) -> Result<Summary> {
    let cancel = Arc::default();
    let mut context = Context::new(written.console(), || SystemTime::UNIX_EPOCH, cancel, PathBuf::new(), String::new());
    asked.run(&mut context)
}

fn fails(asked: &Sensitivity) -> String {
    run(asked, &ConsoleText::default()).unwrap_err().to_string()
}

/// The leader looks for connections until something has happened.
fn look_until(
    gathering: &mut NodeGathering<'_>,
    listener: &LinkListener,
    happened: impl Fn(&NodeGathering<'_>) -> bool,
) -> Result<()> {
    let deadline = Deadline::after(Duration::from_secs(60));
    while !happened(gathering) {
        gathering.look(listener)?;
        assert!(!deadline.is_over(), "nobody came");
        thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

#[test]
fn whoever_does_not_belong_here_is_turned_away_on_both_sides() {
    let cluster = TestCluster::new(3, Duration::from_secs(60));
    let (listener, console) = (cluster.listener(), ConsoleText::default().console());
    let mut gathering = cluster.gathering(&console);
    thread::scope(|scope| {
        let answered = |gathering: &mut NodeGathering<'_>, answer: ScopedJoinHandle<'_, String>| {
            look_until(gathering, &listener, |_| answer.is_finished()).unwrap();
            answer.join().unwrap()
        };
        let first = scope.spawn(|| fails(&cluster.node(1)));
        look_until(&mut gathering, &listener, |gathering| gathering.ranks() == "2").unwrap();
        let other_job = |change: fn(&mut Sensitivity)| {
            let mut other = cluster.node(2);
            change(&mut other);
            other
        };
        let refused = [
            (cluster.node(1), "has this node_rank already"),
            (other_job(|other| other.batch = Some(7)), "--batch is 7 there and none on node 0"),
            (other_job(|other| other.command[1] = "other.sh".to_owned()), "command is sh other.sh there and sh job.sh"),
        ];
        for (node, why) in refused {
            let error = answered(&mut gathering, scope.spawn(move || fails(&node)));
            assert!(error.contains("refused this node") && error.contains(why), "{error}");
        }
        // What is no profiler at all, and one of another version.
        let newer = "{\"what\": \"hello\", \"perf4sight\": \"9.9.9\", \"secret\": 1}";
        for (line, why) in
            [("GET / HTTP/1.1", "no valid message"), (newer, "it is perf4sight 9.9.9, and node 0 perf4sight")]
        {
            let said = answered(&mut gathering, scope.spawn(|| leader_answer(cluster.nodes.port(), line)));
            assert!(said.contains(why), "{said}");
        }
        let error = gathering.missing().to_string();
        assert!(error.starts_with("node_rank 2 of 3 nodes did not come within 1m"), "{error}");
        assert!(["other.sh", "perf4sight 9.9.9"].iter().all(|word| error.contains(word)), "{error}");
        drop(gathering);
        assert!(first.join().unwrap().contains("node 0 is gone"));
    });
}

/// The first line that the leader answers.
fn leader_answer(port: u16, line: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    writeln!(stream, "{line}").unwrap();
    BufReader::new(stream).lines().map(io::Result::unwrap).find(|line| !line.is_empty()).unwrap()
}

#[test]
fn a_node_that_cannot_take_part_says_why_on_both_sides() {
    let cluster = TestCluster::new(2, Duration::from_secs(60));
    let (listener, console) = (cluster.listener(), ConsoleText::default().console());
    let mut gathering = cluster.gathering(&console);
    let without_data = Sensitivity { data: Some(cluster.folder.path().join("data")), ..cluster.node(1) };
    thread::scope(|scope| {
        let follower = scope.spawn(|| fails(&without_data));
        let error = look_until(&mut gathering, &listener, |_| false).unwrap_err().to_string();
        assert!(error.contains("node 1 (") && error.contains("data: cannot look at the data"), "{error}");
        assert!(follower.join().unwrap().contains("data: cannot look at the data"));
    });
}

#[test]
fn whoever_nobody_waits_for_says_so_and_a_dry_run_waits_for_nobody() {
    let cluster = TestCluster::new(2, Duration::from_millis(100));
    let written = ConsoleText::default();
    let error = run(&cluster.node(1), &written).unwrap_err().to_string();
    assert!(error.contains("node 0 was not reached at 127.0.0.1:"), "{error}");
    assert!(written.text().contains("waiting for node 0"), "{}", written.text());
    let error = fails(&cluster.node(0));
    assert!(error.contains("node_rank 1 of 2 nodes did not come within 100ms"), "{error}");
    let planned = Sensitivity { dry_run: true, ..cluster.node(1) };
    let answer = run(&planned, &ConsoleText::default()).unwrap().answer;
    assert!(answer.contains("as node 1 of 2 this one follows node 0 at 127.0.0.1:"), "{answer}");
    let _taken = TcpListener::bind(("127.0.0.1", cluster.nodes.port())).unwrap();
    let error = fails(&cluster.node(0));
    assert!(error.contains("cannot be waited for at port"), "{error}");
    assert!(!cluster.node(0).out.exists());
}

//! Boards that are reached over ssh: networks and worker go there once, every measurement is one command there.
//!
//! The system's ssh does it, with its configuration, keys and known hosts. It never asks anything, and it is only ever given the
//! scripts in this folder to run: whatever comes from a configuration goes over their standard input, line by line. What is brought
//! lies in `~/.cache/perf4sight` on the board, by the checksum of its content, and is not brought again.

mod carry;
mod connection;
mod failure;
mod host;
mod look;
mod ran;

pub use host::Host;

use super::Watch;
use super::description::Description;
use super::machine::{Invocation, Machine};
use super::worker::{End, Legacy};
use crate::error::{Error, Result};
use crate::records::differences;
use carry::{Load, Luggage, Place};
use connection::{Connection, Input, Script};
use failure::Failure;
use look::Look;
use ran::Ran;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Time for what takes a board no time.
const PROMPTLY: Duration = Duration::from_secs(60);
/// Time for a file on its way: a library of 200 MB on a slow line.
const TRANSFER: Duration = Duration::from_secs(3600);
/// How long the board waits for its turn before it is asked again.
const TURN: Duration = Duration::from_secs(10);
/// Times in a row that one configuration may end the connection; one that does it every time takes the board down.
const LOSSES: usize = 3;
/// The longest wait between two attempts to reach a board.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How often a wait looks for Ctrl-C.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

type Attempt<T> = std::result::Result<Option<T>, Failure>;

/// How a board is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Where it is.
    pub host: Host,
    /// A file to use in place of the user's own ssh configuration.
    pub config: Option<PathBuf>,
    /// How long a lost connection is tried to be made again.
    pub patience: Duration,
}

/// A board that is reached over ssh.
#[derive(Debug)]
pub struct Board {
    connection: Connection,
    patience: Duration,
    state: Mutex<State>,
}

/// What is known of the board, and what was brought there, by the file here.
#[derive(Debug, Clone)]
struct State {
    look: Look,
    brought: BTreeMap<PathBuf, Place>,
}

impl Board {
    /// Connects to a board and looks at it.
    ///
    /// # Errors
    /// No way to get there, or something missing that every board needs.
    pub fn connect(route: &Route) -> Result<Self> {
        let connection = Connection::new(route.host.clone(), route.config.clone())?;
        let look = look(&connection, &Watch { cancelled: &AtomicBool::new(false), waiting: &|_| () })
            .map_err(|failure| failure.into_error(&route.host))?
            .ok_or_else(|| Error::device("interrupted"))?;
        if !look.absent.is_empty() {
            return Err(Error::device(format!("{} lacks {}", route.host, look.absent.trim()))
                .help("on the board: apt-get install coreutils util-linux"));
        }
        Ok(Board { connection, patience: route.patience, state: Mutex::new(State { look, brought: BTreeMap::new() }) })
    }

    /// The command of the worker as the board will run it, once what it needs is there: perf4sight's own (beside `executable`, or
    /// what was compiled for the board) where `words` are empty, else these, with the files and folders of this machine that
    /// they name.
    ///
    /// # Errors
    /// A worker for another processor, a file that cannot be read here or kept there.
    pub fn bring_worker(&self, words: &[String], executable: &Path) -> Result<Vec<String>> {
        let never = AtomicBool::new(false);
        let watch = Watch { cancelled: &never, waiting: &|_| () };
        let look = self.state().look.clone();
        let Luggage { files, command } = carry::worker(words, executable, &look, self.connection.host())?;
        files.into_iter().try_for_each(|(file, place)| self.store(&file, place, &watch).map(drop))?;
        Ok(command)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Whoever panicked while holding it left it whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a file into its place, now and whenever the connection is made anew.
    fn store(&self, file: &Path, place: Place, watch: &Watch<'_>) -> Result<Option<()>> {
        let gone = |why: String| Err(Failure::Lost(why).into_error(self.connection.host()));
        let stored = self.persist(watch, || self.put(file, &place, watch), gone)?;
        self.state().brought.insert(file.to_owned(), place);
        Ok(stored)
    }

    fn put(&self, file: &Path, place: &Place, watch: &Watch<'_>) -> Attempt<()> {
        let Load { content, size, mode } = Load::open(file).map_err(Failure::Refused)?;
        let input = Input::lines(&[&place.to_string(), &size.to_string(), mode], TRANSFER).and(content);
        let Some(heard) = self.connection.run(Script::Put, input, watch)? else { return Ok(None) };
        heard.answer.map(|_| Some(())).ok_or_else(|| {
            let (host, store) = (self.connection.host(), self.state().look.store.clone());
            let problem = format!("{host} cannot keep {}: {}", file.display(), heard.complained.trim());
            Failure::Refused(
                Error::device(problem)
                    .help(format!("make room on the board; what earlier sweeps left in {store} can be deleted")),
            )
        })
    }

    /// Tries until there is a result, an error, or Ctrl-C; lost connections are made again, `LOSSES` times in a row at most.
    fn persist<T>(
        &self,
        watch: &Watch<'_>,
        attempt: impl Fn() -> Attempt<T>,
        gone: impl FnOnce(String) -> Result<T>,
    ) -> Result<Option<T>> {
        let mut reason = String::new();
        for _ in 0..LOSSES {
            match attempt() {
                Ok(result) => return Ok(result),
                Err(Failure::Refused(error)) => return Err(error),
                Err(Failure::Lost(why)) => reason = why,
            }
            if self.reconnect(&reason, watch)?.is_none() {
                return Ok(None);
            }
        }
        gone(reason).map(Some)
    }

    /// Makes a lost connection again, pausing longer each time, as long as there is patience.
    fn reconnect(&self, reason: &str, watch: &Watch<'_>) -> Result<Option<()>> {
        let (host, patience) = (self.connection.host(), humantime::format_duration(self.patience));
        (watch.waiting)(&format!("the connection to {host} was lost ({reason}); trying again for {patience}"));
        let (lost, mut pause) = (Instant::now(), Duration::from_millis(500));
        loop {
            if !sleep(pause, watch) {
                return Ok(None);
            }
            match self.renew(watch) {
                Ok(renewed) => return Ok(renewed),
                Err(Failure::Refused(error)) => return Err(error),
                Err(Failure::Lost(why)) if lost.elapsed() >= self.patience => {
                    return Err(Error::device(format!(
                        "the connection to {host} was lost and not to be had again within {patience}: {why}"
                    ))
                    .help("what was measured is kept; the same command goes on from there when the board is back"));
                }
                Err(Failure::Lost(_)) => pause = (pause * 2).min(LONGEST_PAUSE),
            }
        }
    }

    /// Looks at the board again, which may have been started anew, and brings what it lost.
    fn renew(&self, watch: &Watch<'_>) -> Attempt<()> {
        let Some(look) = look(&self.connection, watch)? else { return Ok(None) };
        let State { look: was, brought } = self.state().clone();
        let different = differences(&was.facts, &look.facts);
        if !different.is_empty() {
            let problem = format!("{} came back as another one: {}", self.connection.host(), different.join("; "));
            return Err(Failure::Refused(
                Error::device(problem)
                    .help("bring it back to what it was, or start anew with another device_name or log_dir"),
            ));
        }
        self.state().look = look;
        for (file, place) in &brought {
            if self.put(file, place, watch)?.is_none() {
                return Ok(None);
            }
        }
        Ok(Some(()))
    }

    /// Waits for the turn and runs a worker.
    fn in_turn(&self, command: &Invocation<'_>, watch: &Watch<'_>) -> Attempt<Legacy> {
        // At first without waiting, so that it can be said what is waited for.
        let mut patience = Duration::ZERO;
        loop {
            match self.run(command, Some(patience), watch)? {
                Some(Ran::Ended(legacy)) => return Ok(Some(legacy)),
                Some(Ran::Busy) if patience.is_zero() => {
                    let host = self.connection.host();
                    (watch.waiting)(&format!("another measurement is running on {host}"));
                    patience = TURN;
                }
                Some(Ran::Busy) => {}
                None => return Ok(None),
            }
        }
    }

    /// Runs a worker, in its turn if it comes within a time; without one, at once.
    fn run(&self, command: &Invocation<'_>, turn: Option<Duration>, watch: &Watch<'_>) -> Attempt<Ran> {
        let limit = command.timeout.as_secs_f64().to_string();
        let patience = turn.map_or("ask".to_owned(), |turn| turn.as_secs().to_string());
        let threads = command.threads.to_string();
        let before = [patience.as_str(), &limit, &threads];
        let words = command.words.iter().map(String::as_str);
        let lines: Vec<&str> = before.into_iter().chain(words).chain(["", command.request]).collect();
        let input = Input::lines(&lines, command.timeout + TURN + PROMPTLY).held();
        let Some(heard) = self.connection.run(Script::Run, input, watch)? else { return Ok(None) };
        Ran::read(&heard, command.timeout).map(Some)
    }
}

impl Machine for Board {
    fn description(&self) -> Description {
        self.state().look.description.clone()
    }

    fn threads(&self) -> usize {
        self.state().look.threads
    }

    fn at(&self) -> String {
        format!(" on {}", self.connection.host())
    }

    fn bring(&self, network: &Path, watch: &Watch<'_>) -> Result<Option<PathBuf>> {
        let known = self.state().brought.get(network).cloned();
        let place = match known {
            Some(place) => place,
            None => {
                let place = Place::of(network)?;
                if self.store(network, place.clone(), watch)?.is_none() {
                    return Ok(None);
                }
                place
            }
        };
        Ok(Some(place.on(&self.state().look).into()))
    }

    fn measure(&self, command: &Invocation<'_>, watch: &Watch<'_>) -> Result<Option<Legacy>> {
        let gone = |why| Ok(Legacy::of(End::Lost(LOSSES), String::new(), why));
        self.persist(watch, || self.in_turn(command, watch), gone)
    }

    fn ask(&self, command: &Invocation<'_>, watch: &Watch<'_>) -> Result<Option<Legacy>> {
        let ran = self.run(command, None, watch).map_err(|failure| failure.into_error(self.connection.host()))?;
        Ok(ran.and_then(|ran| match ran {
            Ran::Ended(legacy) => Some(legacy),
            Ran::Busy => None,
        }))
    }
}

fn look(connection: &Connection, watch: &Watch<'_>) -> Attempt<Look> {
    let Some(heard) = connection.run(Script::Look, Input::lines(&[], PROMPTLY), watch)? else { return Ok(None) };
    let answer = heard.answer.ok_or_else(|| {
        let words = heard.complained.trim();
        Failure::Lost(if words.is_empty() { "its shell says nothing".to_owned() } else { words.to_owned() })
    })?;
    Look::read(&answer, connection.folder()).map(Some).map_err(Failure::Refused)
}

/// Sleeps; false after Ctrl-C.
fn sleep(pause: Duration, watch: &Watch<'_>) -> bool {
    let end = Instant::now() + pause;
    while Instant::now() < end && !watch.cancelled() {
        thread::sleep(LOOK_AGAIN.min(pause));
    }
    !watch.cancelled()
}

//! A connection to the same program on another machine, in lines of text: bounded, and known to be alive or gone.
//!
//! Either side writes an empty line every second, so that silence means that the other one, or the network between, is gone, whatever
//! the kernel still believes. What lines say is the business of those who use it.

use crate::Watch;
use crate::deadline::Deadline;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// The longest line, in bytes.
const LONGEST: u64 = 1 << 20;
/// Lines that wait to be heard; more are left in the network, so that whoever sends too many is held up.
const UNHEARD: usize = 64;
/// How often a sign of life is given.
const BEAT: Duration = Duration::from_secs(1);
/// So long nothing may be heard: a machine that is busy may be late.
const SILENCE: Duration = Duration::from_secs(15);
/// How long one try to connect takes at most: less than the program has after Ctrl-C.
const TRY: Duration = Duration::from_secs(3);
/// How long it is waited between two tries, and how often one is reported.
const AGAIN: Duration = Duration::from_millis(200);
const TOLD: Duration = Duration::from_secs(10);
/// How long the other side may take to hear the last line.
const FAREWELL: Duration = Duration::from_secs(2);

/// A connection.
#[derive(Debug)]
pub struct Link {
    stream: Arc<Mutex<TcpStream>>,
    heard: Receiver<Heard>,
    /// Nothing is ever sent: its end stops whoever gives signs of life.
    _beating: Sender<()>,
}

/// What comes over a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// A line, without its end.
    Line(String),
    /// Nothing will come any more, for this reason.
    Lost(String),
}

/// Waits for connections.
#[derive(Debug)]
pub struct Listener(TcpListener);

impl Listener {
    /// At a port, for whoever reaches us by this address: only this machine where that is its loopback; else every machine, for what an
    /// address is to others, we may have another one.
    ///
    /// # Errors
    /// A port that is taken, or not ours to take.
    pub fn open(address: &str, port: u16) -> io::Result<Self> {
        let is_loopback = |address: &str| address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        let listener = if address == "localhost" || is_loopback(address) {
            TcpListener::bind((address, port))
        } else {
            // Both versions of the protocol where there are both.
            TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).or_else(|cause| match cause.kind() {
                ErrorKind::AddrInUse | ErrorKind::PermissionDenied => Err(cause),
                _ => TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)),
            })
        }?;
        listener.set_nonblocking(true)?;
        Ok(Listener(listener))
    }

    /// The next connection; none where nobody wants one now.
    ///
    /// # Errors
    /// When no connection can be taken any more.
    pub fn next(&self) -> io::Result<Option<Link>> {
        match self.0.accept() {
            // Whoever is gone again was nobody.
            Ok((stream, _)) => Ok(stream.set_nonblocking(false).and_then(|()| Link::of(stream, SILENCE)).ok()),
            Err(cause) if cause.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(cause) if matches!(cause.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted) => Ok(None),
            Err(cause) => Err(cause),
        }
    }
}

impl Link {
    /// Connects, trying again for so long; none after Ctrl-C. The reason for waiting is reported now and then.
    ///
    /// # Errors
    /// The last reason why it was in vain.
    pub fn reach(address: &str, port: u16, patience: Duration, watch: &Watch<'_>) -> io::Result<Option<Self>> {
        let deadline = Deadline::after(patience);
        let mut told: Option<Deadline> = None;
        loop {
            let cause = match connect(address, port).and_then(|stream| Link::of(stream, SILENCE)) {
                Ok(link) => return Ok(Some(link)),
                Err(cause) => cause,
            };
            if watch.cancelled() {
                return Ok(None);
            }
            if deadline.is_over() {
                return Err(cause);
            }
            if told.is_none_or(|until| until.is_over()) {
                (watch.waiting)(&cause.to_string());
                told = Some(Deadline::after(TOLD));
            }
            thread::sleep(AGAIN);
        }
    }

    fn of(stream: TcpStream, silence: Duration) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(silence))?;
        stream.set_write_timeout(Some(silence))?;
        let listening = stream.try_clone()?;
        let stream = Arc::new(Mutex::new(stream));
        let (tell, heard) = sync_channel(UNHEARD);
        thread::spawn(move || listen(listening, silence, &tell));
        let (beating, over) = channel();
        let beaten = Arc::clone(&stream);
        thread::spawn(move || beat(&beaten, &over));
        Ok(Link { stream, heard, _beating: beating })
    }

    /// Says a line. That it was heard is not known by that.
    ///
    /// # Errors
    /// A connection that is over.
    pub fn say(&self, line: &str) -> io::Result<()> {
        write(&self.stream, line)
    }

    /// What comes next; none where nothing does within this time.
    pub fn hear(&self, patience: Duration) -> Option<Heard> {
        match self.heard.recv_timeout(patience) {
            Ok(heard) => Some(heard),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Heard::Lost("the connection is over".to_owned())),
        }
    }

    /// Ends it when the other side has heard all that was said, or does not listen any more.
    pub fn close(self) {
        let shut = self.stream.lock().unwrap_or_else(PoisonError::into_inner).shutdown(Shutdown::Write);
        let deadline = Deadline::after(FAREWELL);
        while shut.is_ok() && !deadline.is_over() && !matches!(self.hear(AGAIN), Some(Heard::Lost(_))) {}
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // Where it is over already, nobody reads from it either.
        let _ = self.stream.lock().unwrap_or_else(PoisonError::into_inner).shutdown(Shutdown::Both);
    }
}

fn connect(address: &str, port: u16) -> io::Result<TcpStream> {
    let mut failed = io::Error::new(ErrorKind::NotFound, "it has no address");
    let found: Vec<SocketAddr> = (address, port).to_socket_addrs()?.collect();
    for address in found {
        match TcpStream::connect_timeout(&address, TRY) {
            Ok(stream) => return Ok(stream),
            Err(cause) => failed = cause,
        }
    }
    Err(failed)
}

fn write(stream: &Mutex<TcpStream>, line: &str) -> io::Result<()> {
    // In one piece, so that lines of several threads do not mix.
    let line = format!("{line}\n");
    stream.lock().unwrap_or_else(PoisonError::into_inner).write_all(line.as_bytes())
}

/// Gives signs of life until the connection is over, or nobody wants it any more.
fn beat(stream: &Mutex<TcpStream>, over: &Receiver<()>) {
    while over.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) && write(stream, "").is_ok() {}
}

/// Hears lines until the last.
fn listen(stream: TcpStream, silence: Duration, tell: &SyncSender<Heard>) {
    let mut stream = BufReader::new(stream);
    loop {
        let heard = match next(&mut stream) {
            Ok(Some(line)) if line.is_empty() => continue,
            Ok(Some(line)) => Heard::Line(line),
            Ok(None) => Heard::Lost("it closed the connection".to_owned()),
            Err(cause) if matches!(cause.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Heard::Lost(format!("nothing was heard of it for {} s", silence.as_secs_f64()))
            }
            Err(cause) => Heard::Lost(cause.to_string()),
        };
        let over = matches!(heard, Heard::Lost(_));
        if tell.send(heard).is_err() || over {
            return;
        }
    }
}

/// The next line; none at the end, where what has no end of its own does not count.
fn next(stream: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    let read = stream.by_ref().take(LONGEST).read_until(b'\n', &mut line)?;
    match line.pop() {
        Some(b'\n') => {
            let text = String::from_utf8(line);
            text.map(Some).map_err(|_| io::Error::new(ErrorKind::InvalidData, "what it said is no text"))
        }
        Some(_) if read as u64 == LONGEST => {
            Err(io::Error::new(ErrorKind::InvalidData, format!("it said a line of more than {LONGEST} bytes")))
        }
        Some(_) | None => Ok(None),
    }
}

#[cfg(test)]
mod tests;

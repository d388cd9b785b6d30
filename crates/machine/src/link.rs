//! A connection to the same program on another machine, with lines of text: bounded, and monitored by a heartbeat.
//!
//! Either side sends an empty line every second, so that silence means that the other side or the network is down, even
//! if the kernel does not report it. The caller defines the meaning of the lines.

use crate::RunWatch;
use crate::deadline::Deadline;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

const LONGEST: u64 = 1 << 20;
/// Received lines that are queued; beyond that, flow control slows the sender down.
const QUEUED: usize = 64;
const BEAT: Duration = Duration::from_secs(1);
/// The longest silence before a connection counts as lost: a busy machine may be late.
const SILENCE: Duration = Duration::from_secs(15);
/// The longest connection attempt: shorter than the time of the program after Ctrl-C.
const TRY: Duration = Duration::from_secs(3);
/// The time between two attempts, and between two reports of a failed one.
const AGAIN: Duration = Duration::from_millis(200);
const REMINDER: Duration = Duration::from_secs(10);
/// How long the other side may take to receive the last line.
const FAREWELL: Duration = Duration::from_secs(2);

/// A TCP connection that exchanges lines and notices its loss.
#[derive(Debug)]
pub struct LineLink {
    stream: Arc<Mutex<TcpStream>>,
    heard: Receiver<ReceivedLine>,
    /// Nothing is ever sent; dropping it stops the heartbeat.
    _beating: Sender<()>,
}

/// What the other side sent, or that it is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReceivedLine {
    /// A line, without the line end.
    Line(String),
    /// The connection is lost, for this reason.
    Lost(String),
}

/// A TCP port that waits for connections.
#[derive(Debug)]
pub struct LinkListener(TcpListener);

impl LinkListener {
    /// Listens on a port. With a loopback address, only this machine can connect; otherwise every machine can, because
    /// the address that others use may not be one of ours.
    ///
    /// # Errors
    /// A port that is in use or not permitted.
    pub fn open(address: &str, port: u16) -> io::Result<Self> {
        let is_loopback = |address: &str| address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        let listener = if address == "localhost" || is_loopback(address) {
            TcpListener::bind((address, port))
        } else {
            // IPv4 and IPv6 where both exist.
            TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).or_else(|cause| match cause.kind() {
                ErrorKind::AddrInUse | ErrorKind::PermissionDenied => Err(cause),
                _ => TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)),
            })
        }?;
        listener.set_nonblocking(true)?;
        Ok(LinkListener(listener))
    }

    /// The next connection; none where none is pending.
    ///
    /// # Errors
    /// When no more connections can be accepted.
    pub fn next(&self) -> io::Result<Option<LineLink>> {
        match self.0.accept() {
            // A peer that has already disconnected is ignored.
            Ok((stream, _)) => Ok(stream.set_nonblocking(false).and_then(|()| LineLink::new(stream, SILENCE)).ok()),
            Err(cause) if cause.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(cause) if matches!(cause.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted) => Ok(None),
            Err(cause) => Err(cause),
        }
    }
}

impl LineLink {
    /// Connects, with repeated attempts for this time; none after Ctrl-C. The reason for waiting is reported
    /// periodically.
    ///
    /// # Errors
    /// The error of the last attempt.
    pub fn reach(address: &str, port: u16, patience: Duration, watch: &RunWatch<'_>) -> io::Result<Option<Self>> {
        let deadline = Deadline::after(patience);
        let mut reported: Option<Deadline> = None;
        loop {
            let cause = match connect(address, port).and_then(|stream| LineLink::new(stream, SILENCE)) {
                Ok(link) => return Ok(Some(link)),
                Err(cause) => cause,
            };
            if watch.cancelled() {
                return Ok(None);
            }
            if deadline.is_over() {
                return Err(cause);
            }
            if reported.is_none_or(|until| until.is_over()) {
                (watch.waiting)(&cause.to_string());
                reported = Some(Deadline::after(REMINDER));
            }
            thread::sleep(AGAIN);
        }
    }

    fn new(stream: TcpStream, silence: Duration) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(silence))?;
        stream.set_write_timeout(Some(silence))?;
        let listening = stream.try_clone()?;
        let stream = Arc::new(Mutex::new(stream));
        let (tell, heard) = sync_channel(QUEUED);
        thread::spawn(move || listen(listening, silence, &tell));
        let (beating, over) = channel();
        let beaten = Arc::clone(&stream);
        thread::spawn(move || beat(&beaten, &over));
        Ok(LineLink { stream, heard, _beating: beating })
    }

    /// Sends a line. Success does not mean that it was received.
    ///
    /// # Errors
    /// A closed connection.
    pub fn send_line(&self, line: &str) -> io::Result<()> {
        write(&self.stream, line)
    }

    /// The next event; none where none arrives within this time.
    pub fn receive(&self, patience: Duration) -> Option<ReceivedLine> {
        match self.heard.recv_timeout(patience) {
            Ok(heard) => Some(heard),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(ReceivedLine::Lost("the connection is over".to_owned())),
        }
    }

    /// Closes it when the other side has received everything, or does not read any more.
    pub fn close(self) {
        let shut = self.stream.lock().unwrap_or_else(PoisonError::into_inner).shutdown(Shutdown::Write);
        let deadline = Deadline::after(FAREWELL);
        while shut.is_ok() && !deadline.is_over() && !matches!(self.receive(AGAIN), Some(ReceivedLine::Lost(_))) {}
    }
}

impl Drop for LineLink {
    fn drop(&mut self) {
        // If the connection is already closed, there is nothing to shut down.
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
    // In one write, so that lines of several threads do not mix.
    let line = format!("{line}\n");
    stream.lock().unwrap_or_else(PoisonError::into_inner).write_all(line.as_bytes())
}

/// Sends the heartbeat until the connection is closed.
fn beat(stream: &Mutex<TcpStream>, over: &Receiver<()>) {
    while over.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) && write(stream, "").is_ok() {}
}

/// Receives lines until the end.
fn listen(stream: TcpStream, silence: Duration, tell: &SyncSender<ReceivedLine>) {
    let mut stream = BufReader::new(stream);
    loop {
        let heard = match next(&mut stream) {
            Ok(Some(line)) if line.is_empty() => continue,
            Ok(Some(line)) => ReceivedLine::Line(line),
            Ok(None) => ReceivedLine::Lost("it closed the connection".to_owned()),
            Err(cause) if matches!(cause.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                ReceivedLine::Lost(format!("nothing was heard of it for {} s", silence.as_secs_f64()))
            }
            Err(cause) => ReceivedLine::Lost(cause.to_string()),
        };
        let over = matches!(heard, ReceivedLine::Lost(_));
        if tell.send(heard).is_err() || over {
            return;
        }
    }
}

/// The next line; none at the end. A last line without a line end does not count.
fn next(stream: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    let read = stream.by_ref().take(LONGEST).read_until(b'\n', &mut line)?;
    match line.pop() {
        Some(b'\n') => {
            let text = String::from_utf8(line);
            text.map(Some).map_err(|_| io::Error::new(ErrorKind::InvalidData, "its output is not text"))
        }
        Some(_) if read as u64 == LONGEST => {
            Err(io::Error::new(ErrorKind::InvalidData, format!("it wrote a line of more than {LONGEST} bytes")))
        }
        Some(_) | None => Ok(None),
    }
}

#[cfg(test)]
mod tests;

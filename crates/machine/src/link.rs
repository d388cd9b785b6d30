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
/// How long it is waited between two tries, and how often one is told of.
const AGAIN: Duration = Duration::from_millis(200);
const TOLD: Duration = Duration::from_secs(10);
/// How long the other side may take to hear the last line.
const FAREWELL: Duration = Duration::from_secs(2);

/// A connection.
#[derive(Debug)]
pub struct Link {
    stream: Arc<Mutex<TcpStream>>,
    heard: Receiver<Heard>,
    /// Nothing is ever sent: its end tells whoever gives signs of life.
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
    /// Connects, trying again for so long; none after Ctrl-C. Whoever watches is told now and then why it is still waited.
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
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    const SOON: Duration = Duration::from_secs(5);

    /// What we hear of somebody who does this with the other end.
    fn hears(silence: Duration, does: impl FnOnce(TcpStream) + Send + 'static) -> Link {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let other = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        thread::spawn(move || does(other));
        Link::of(listener.accept().unwrap().0, silence).unwrap()
    }

    fn lost(link: &Link) -> String {
        match link.hear(SOON) {
            Some(Heard::Lost(why)) => why,
            other => panic!("{other:?}"),
        }
    }

    fn line(link: &Link) -> String {
        match link.hear(SOON) {
            Some(Heard::Line(line)) => line,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn lines_come_as_they_were_said_and_the_last_one_too() {
        let listener = Listener::open("127.0.0.1", 0).unwrap();
        let port = listener.0.local_addr().unwrap().port();
        let cancelled = AtomicBool::new(false);
        let here = Link::reach("127.0.0.1", port, SOON, &Watch::quiet(&cancelled)).unwrap().unwrap();
        let there = (0..1000).find_map(|_| {
            thread::sleep(Duration::from_millis(1));
            listener.next().unwrap()
        });
        let there = there.unwrap();
        here.say("{\"a\": 1}").unwrap();
        there.say("ä").unwrap();
        assert_eq!((line(&there), line(&here)), ("{\"a\": 1}".to_owned(), "ä".to_owned()));
        here.say("farewell").unwrap();
        let closing = thread::spawn(|| here.close());
        assert_eq!((line(&there), lost(&there)), ("farewell".to_owned(), "it closed the connection".to_owned()));
        assert!(lost(&there).contains("over"), "and so it stays");
        drop(there);
        closing.join().unwrap();
    }

    #[test]
    fn what_is_no_line_ends_it() {
        let says = |bytes: Vec<u8>| lost(&hears(SOON, move |mut other| drop(other.write_all(&bytes))));
        assert!(says(vec![b'a'; 2 << 20]).contains("more than 1048576 bytes"));
        assert!(says(vec![0xff, b'\n']).contains("no text"));
        assert_eq!(says(b"cut off".to_vec()), "it closed the connection");
    }

    #[test]
    fn silence_is_an_end_and_signs_of_life_are_none() {
        let silent = hears(Duration::from_millis(200), |other| {
            thread::sleep(SOON);
            drop(other);
        });
        assert_eq!(lost(&silent), "nothing was heard of it for 0.2 s");
        let alive = hears(Duration::from_millis(200), |mut other| {
            (0..10).for_each(|_| {
                other.write_all(b"\n").unwrap();
                thread::sleep(Duration::from_millis(50));
            });
            other.write_all(b"here\n").unwrap();
            thread::sleep(SOON);
        });
        assert_eq!(line(&alive), "here");
        // Ours is given every second.
        let beaten = hears(SOON, |other| {
            let mut first = [0];
            (&other).read_exact(&mut first).unwrap();
            (&other).write_all(format!("{first:?}\n").as_bytes()).unwrap();
        });
        assert_eq!(line(&beaten), "[10]");
    }

    #[test]
    fn whoever_does_not_listen_is_tried_again_until_patience_ends() {
        let (waited, cancelled) = (AtomicBool::new(false), AtomicBool::new(false));
        let waiting = |_: &str| waited.store(true, std::sync::atomic::Ordering::Relaxed);
        let watch = Watch { waiting: &waiting, ..Watch::quiet(&cancelled) };
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let cause = Link::reach("127.0.0.1", port, Duration::from_millis(300), &watch).unwrap_err();
        assert_eq!(cause.kind(), ErrorKind::ConnectionRefused);
        assert!(waited.into_inner());
        let cancelled = AtomicBool::new(true);
        assert!(Link::reach("127.0.0.1", port, SOON, &Watch::quiet(&cancelled)).unwrap().is_none());
    }

    #[test]
    fn the_loopback_is_for_this_machine_alone() {
        let at = |address: &str| Listener::open(address, 0).unwrap().0.local_addr().unwrap().ip();
        assert!(at("127.0.0.1").is_loopback() && at("localhost").is_loopback());
        assert!(at("192.0.2.1").is_unspecified(), "an address of documentation, which is nobody's");
    }
}

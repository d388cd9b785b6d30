//! Tests of `link`.

use super::*;
use std::sync::atomic::AtomicBool;

const SOON: Duration = Duration::from_secs(5);

/// Our end of a connection whose other end does this.
fn hears(silence: Duration, does: impl FnOnce(TcpStream) + Send + 'static) -> LineLink {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let other = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    thread::spawn(move || does(other));
    LineLink::new(listener.accept().unwrap().0, silence).unwrap()
}

fn lost(link: &LineLink) -> String {
    let heard = link.receive(SOON);
    let Some(ReceivedLine::Lost(why)) = &heard else { panic!("{heard:?}") };
    why.clone()
}

fn line(link: &LineLink) -> String {
    let heard = link.receive(SOON);
    let Some(ReceivedLine::Line(line)) = &heard else { panic!("{heard:?}") };
    line.clone()
}

#[test]
fn lines_come_as_they_were_said_and_the_last_one_too() {
    let listener = LinkListener::open("127.0.0.1", 0).unwrap();
    let port = listener.0.local_addr().unwrap().port();
    let cancelled = AtomicBool::new(false);
    let here = LineLink::reach("127.0.0.1", port, SOON, &RunWatch::quiet(&cancelled)).unwrap().unwrap();
    let there = (0..1000).find_map(|_| {
        thread::sleep(Duration::from_millis(1));
        listener.next().unwrap()
    });
    let there = there.unwrap();
    here.send_line("{\"a\": 1}").unwrap();
    there.send_line("ä").unwrap();
    assert_eq!((line(&there), line(&here)), ("{\"a\": 1}".to_owned(), "ä".to_owned()));
    here.send_line("farewell").unwrap();
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
    assert!(says(vec![0xff, b'\n']).contains("not text"));
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
    // Our heartbeat is sent every second.
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
    let watch = RunWatch { waiting: &waiting, ..RunWatch::quiet(&cancelled) };
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let cause = LineLink::reach("127.0.0.1", port, Duration::from_millis(300), &watch).unwrap_err();
    assert_eq!(cause.kind(), ErrorKind::ConnectionRefused);
    assert!(waited.into_inner());
    let cancelled = AtomicBool::new(true);
    assert!(LineLink::reach("127.0.0.1", port, SOON, &RunWatch::quiet(&cancelled)).unwrap().is_none());
}

#[test]
fn the_loopback_is_for_this_machine_alone() {
    let at = |address: &str| LinkListener::open(address, 0).unwrap().0.local_addr().unwrap().ip();
    assert!(at("127.0.0.1").is_loopback() && at("localhost").is_loopback());
    assert!(at("192.0.2.1").is_unspecified(), "an address of documentation, which is nobody's");
}

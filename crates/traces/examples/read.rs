//! Reads traces and says how long it took: `cargo run --release -p perf4sight-traces --example read -- trace.json.gz`.

use std::time::Instant;

fn main() -> Result<(), perf4sight_base::error::Error> {
    for file in std::env::args().skip(1) {
        let begin = Instant::now();
        let trace = perf4sight_traces::read(file.as_ref())?;
        let seconds = begin.elapsed().as_secs_f64();
        let events = trace.events.len();
        println!(
            "{file}: {events} events, {} names, {} tracks in {seconds:.3} s, {:.2} million a second {:?}",
            trace.names.all().count(),
            trace.tracks.len(),
            events as f64 / seconds / 1e6,
            trace.damage.warnings(),
        );
    }
    Ok(())
}

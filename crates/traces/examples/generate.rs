//! Writes a trace of so many megabytes, the same each time: `cargo run --release -p perf4sight-traces --example generate -- 1000 trace.json`.

mod generated;

use std::fs::File;
use std::io::{BufWriter, Error, Result, Write};

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (Some(megabytes), Some(file)) = (arguments.next().and_then(|size| size.parse::<u64>().ok()), arguments.next())
    else {
        return Err(Error::other("generate MEGABYTES FILE"));
    };
    let mut target = BufWriter::new(File::create(&file)?);
    let events = generated::write(&mut target, megabytes * 1_000_000)?;
    target.flush()?;
    println!("{file}: {events} events");
    Ok(())
}

//! Writes a folder as dPRO's recorders do, for a comparison with dPRO's `analyze.py`, and prints the true microseconds of each
//! step: `cargo run -p perf4sight-replay --example published_folder -- FOLDER ring|tree|messages|byteps MACHINES GPUS LAYERS STEPS`.

#[path = "../tests/published/mod.rs"]
#[expect(clippy::unwrap_used, reason = "it is a part of the tests, too")]
mod published;

use published::{Published, Transport};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, transport, numbers @ ..] = arguments.as_slice() else { return eprintln!("a folder and a transport") };
    let transport = match transport.as_str() {
        "tree" => Transport::Tree,
        "messages" => Transport::MessagesOnly,
        "byteps" => Transport::BytePs,
        _ => Transport::Ring,
    };
    let mut made = Published { transport, ..Published::default() };
    let places = [&mut made.machines, &mut made.gpus, &mut made.layers, &mut made.steps];
    for (place, number) in places.into_iter().zip(numbers) {
        *place = number.parse().unwrap_or(*place);
    }
    println!("{:?}", made.write(folder.as_ref()));
}

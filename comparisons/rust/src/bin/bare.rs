//! The programs on a bare ring: the first argument says which. Those that are not here would be libraries.

#[path = "../bare/bounded_reads.rs"]
mod bounded_reads;
#[path = "../bare/log_writer.rs"]
mod log_writer;
#[path = "../bare/random_reads.rs"]
mod random_reads;

fn main() -> programs::Result {
    match std::env::args().nth(1).as_deref() {
        Some("bounded_reads") => bounded_reads::main(),
        Some("log_writer") => log_writer::main(),
        Some("random_reads") => random_reads::main(),
        other => Err(format!("there is no program {other:?}").into()),
    }
}

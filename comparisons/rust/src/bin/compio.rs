//! The programs on compio: the first argument says which.

#[path = "../compio/bounded_reads.rs"]
mod bounded_reads;
#[path = "../compio/log_writer.rs"]
mod log_writer;
#[path = "../compio/proxy.rs"]
mod proxy;
#[path = "../compio/random_reads.rs"]
mod random_reads;
#[path = "../compio/serve_files.rs"]
mod serve_files;
#[path = "../compio/tree_with_progress.rs"]
mod tree_with_progress;

fn main() -> programs::Result {
    match std::env::args().nth(1).as_deref() {
        Some("bounded_reads") => bounded_reads::main(),
        Some("log_writer") => log_writer::main(),
        Some("proxy") => proxy::main(),
        Some("random_reads") => random_reads::main(),
        Some("serve_files") => serve_files::main(),
        Some("tree_with_progress") => tree_with_progress::main(),
        other => Err(format!("there is no program {other:?}").into()),
    }
}

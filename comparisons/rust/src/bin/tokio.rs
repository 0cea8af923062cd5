//! The programs on tokio: the first argument says which.

#[path = "../tokio/bounded_reads.rs"]
mod bounded_reads;
#[path = "../tokio/log_writer.rs"]
mod log_writer;
#[path = "../tokio/proxy.rs"]
mod proxy;
#[path = "../tokio/random_reads.rs"]
mod random_reads;
#[path = "../tokio/serve_files.rs"]
mod serve_files;
#[path = "../tokio/tree_with_progress.rs"]
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

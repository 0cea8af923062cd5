//! Reads all files of a directory, 64 at a time, and adds up their bytes.

use futures_util::stream::{self, StreamExt};
use programs::AT_ONCE;

#[tokio::main]
pub async fn main() -> programs::Result {
    let folder = programs::args().next().ok_or("usage: bounded_reads DIRECTORY")?;
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        paths.push(entry?.path());
    }
    let mut reads = stream::iter(&paths)
        .map(tokio::fs::read)
        .buffer_unordered(AT_ONCE);
    let mut sum = 0;
    while let Some(contents) = reads.next().await {
        sum += contents?.iter().map(|&byte| u64::from(byte)).sum::<u64>();
    }
    println!("{} files, sum {sum}", paths.len());
    Ok(())
}

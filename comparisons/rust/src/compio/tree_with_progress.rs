//! Copies a tree with its permissions, and says how far it is. compio lists no directories; that is std's.

use compio::buf::{BufResult, IntoInner, IoBuf};
use compio::fs::File;
use compio::io::{AsyncReadAt, AsyncWriteAtExt};
use futures_util::stream::{self, StreamExt};
use programs::AT_ONCE;
use std::path::{Path, PathBuf};

const BUFFER_BYTES: usize = 256 << 10;

/// Makes the directories, and finds the files.
fn walk(source: &Path, target: &Path, files: &mut Vec<(PathBuf, PathBuf)>) -> std::io::Result<()> {
    std::fs::create_dir(target)?;
    for entry in std::fs::read_dir(source)? {
        let entry = entry?;
        let (from, to) = (entry.path(), target.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_dir() {
            walk(&from, &to, files)?;
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(std::fs::read_link(from)?, to)?;
        } else {
            files.push((from, to));
        }
    }
    std::fs::set_permissions(target, std::fs::metadata(source)?.permissions())
}

async fn copy((from, to): &(PathBuf, PathBuf)) -> std::io::Result<u64> {
    let source = File::open(from).await?;
    let mut target = File::create(to).await?;
    let mut buffer = Vec::with_capacity(BUFFER_BYTES);
    let mut at = 0;
    loop {
        let BufResult(count, read) = source.read_at(buffer, at).await;
        let count = count?;
        if count == 0 {
            break;
        }
        let BufResult(written, sent) = target.write_all_at(read.slice(..count), at).await;
        written?;
        at += count as u64;
        buffer = sent.into_inner();
        buffer.clear();
    }
    target
        .set_permissions(source.metadata().await?.permissions())
        .await?;
    Ok(at)
}

#[compio::main]
pub async fn main() -> programs::Result {
    let mut args = programs::args();
    let source = args.next().ok_or("usage: tree_with_progress SOURCE TARGET")?;
    let target = args.next().ok_or("usage: tree_with_progress SOURCE TARGET")?;
    let mut files = Vec::new();
    walk(Path::new(&source), Path::new(&target), &mut files)?;
    let mut copies = stream::iter(&files).map(copy).buffer_unordered(AT_ONCE);
    let (mut bytes, mut done, mut said) = (0, 0, 0);
    while let Some(copied) = copies.next().await {
        bytes += copied?;
        done += 1;
        let percent = done * 100 / files.len();
        if percent > said {
            said = percent;
            eprint!("\r{percent} %");
        }
    }
    println!("{done} files, {bytes} bytes");
    Ok(())
}

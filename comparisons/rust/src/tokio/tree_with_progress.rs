//! Copies a tree with its permissions, and says how far it is.

use futures_util::stream::{self, StreamExt};
use programs::AT_ONCE;
use std::path::PathBuf;
use tokio::fs;

#[tokio::main]
pub async fn main() -> programs::Result {
    let mut args = programs::args();
    let source = args.next().ok_or("usage: tree_with_progress SOURCE TARGET")?;
    let target = args.next().ok_or("usage: tree_with_progress SOURCE TARGET")?;
    let mut folders: Vec<(PathBuf, PathBuf)> = vec![(source.into(), target.into())];
    let mut files = Vec::new();
    while let Some((source, target)) = folders.pop() {
        fs::create_dir(&target).await?;
        fs::set_permissions(&target, fs::metadata(&source).await?.permissions()).await?;
        let mut entries = fs::read_dir(&source).await?;
        while let Some(entry) = entries.next_entry().await? {
            let (from, to) = (entry.path(), target.join(entry.file_name()));
            let kind = entry.file_type().await?;
            if kind.is_dir() {
                folders.push((from, to));
            } else if kind.is_symlink() {
                fs::symlink(fs::read_link(from).await?, to).await?;
            } else {
                files.push((from, to));
            }
        }
    }
    let copy = |(from, to)| fs::copy(from, to);
    let all = files.len();
    let mut copies = stream::iter(files).map(copy).buffer_unordered(AT_ONCE);
    let (mut bytes, mut done, mut said) = (0, 0, 0);
    while let Some(copied) = copies.next().await {
        bytes += copied?;
        done += 1;
        let percent = done * 100 / all;
        if percent > said {
            said = percent;
            eprint!("\r{percent} %");
        }
    }
    println!("{done} files, {bytes} bytes");
    Ok(())
}

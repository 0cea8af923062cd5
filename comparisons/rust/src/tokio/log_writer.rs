//! A log whose records are on the device when they count.

use tokio::fs::File;
use tokio::io::AsyncWriteExt;

#[tokio::main]
pub async fn main() -> programs::Result {
    let mut args = programs::args();
    let path = args.next().ok_or("usage: log_writer FILE RECORDS")?;
    let records: u64 = args.next().ok_or("usage: log_writer FILE RECORDS")?.parse()?;
    let mut log = File::create(path).await?;
    let mut at = 0;
    for number in 0..records {
        let record = format!("record {number:>10} of {records:>10}: {:>96}\n", "on the device");
        log.write_all(record.as_bytes()).await?;
        log.sync_data().await?;
        at += record.len() as u64;
    }
    println!("{at} bytes in {records} records");
    Ok(())
}

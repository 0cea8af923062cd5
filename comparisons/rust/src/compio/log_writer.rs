//! A log whose records are on the device when they count. compio links no ops: the sync is submitted after the write.

use compio::buf::BufResult;
use compio::fs::File;
use compio::io::AsyncWriteAtExt;

#[compio::main]
pub async fn main() -> programs::Result {
    let mut args = programs::args();
    let path = args.next().ok_or("usage: log_writer FILE RECORDS")?;
    let records: u64 = args.next().ok_or("usage: log_writer FILE RECORDS")?.parse()?;
    let mut log = File::create(path).await?;
    let mut at = 0;
    for number in 0..records {
        let record = format!("record {number:>10} of {records:>10}: {:>96}\n", "on the device");
        let BufResult(written, record) = log.write_all_at(record, at).await;
        written?;
        log.sync_data().await?;
        at += record.len() as u64;
    }
    println!("{at} bytes in {records} records");
    Ok(())
}

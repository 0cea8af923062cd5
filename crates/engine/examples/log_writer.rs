//! A log whose records are on the device when they count: `cargo run --release --example log_writer -- FILE RECORDS`. Each record is
//! written and synced in one submission.

use proactor_engine::op::{Fsync, Open, OpenFlags, Write};
use proactor_engine::Driver;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("usage: log_writer FILE RECORDS")?;
    let records: u64 = args.next().ok_or("usage: log_writer FILE RECORDS")?.parse()?;

    let mut driver = Driver::new()?;
    let log = driver.run(Open::new(
        path,
        OpenFlags::WRITE_ONLY | OpenFlags::CREATE | OpenFlags::TRUNCATE,
    ))?;
    let mut at = 0;
    for number in 0..records {
        let record = format!("record {number:>10} of {records:>10}: {:>96}\n", "on the device");
        // The sync starts when the whole record is written.
        let ((written, _), ()) = driver.chain((Write::at(&log, at, record), Fsync::data(&log)))?;
        at += written as u64;
    }
    println!("{at} bytes in {records} records");
    Ok(())
}

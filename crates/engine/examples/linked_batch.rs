//! A chain: write a file safely (write, sync, rename), the three ops in one submission.

use proactor_engine::op::{Fsync, Open, OpenFlags, Rename, Write};
use proactor_engine::Driver;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let (draft, target) = (dir.path().join("settings.new"), dir.path().join("settings"));

    let mut driver = Driver::new()?;
    let flags = OpenFlags::WRITE_ONLY | OpenFlags::CREATE | OpenFlags::EXCLUSIVE;
    let file = driver.run(Open::new(&draft, flags))?;

    // Each op starts when the one before has succeeded: no rename without the data on the device.
    let ((written, _), (), ()) = driver.chain((
        Write::at(&file, 0, "answer = 42\n"),
        Fsync::data(&file),
        Rename::new(&draft, &target),
    ))?;
    println!("{written} bytes are safe in {}", target.display());
    assert_eq!(std::fs::read(&target)?, b"answer = 42\n");
    Ok(())
}

//! A batch with links: write a file safely (write, sync, rename), the three ops in one submission.

use proactor::op::{Fsync, Op, Open, Rename, Write};
use proactor::Driver;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).expect("no NUL in these paths")
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let (draft, target) = (dir.path().join("settings.new"), dir.path().join("settings"));

    let mut driver = Driver::new()?;
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL;
    let file = driver.run(Open::new(c_path(&draft), flags))?.into_file()?;

    // Each op starts when the one before has succeeded: no rename without the data on the device.
    let chain: Vec<Op> = vec![
        Write::at(&file, 0, b"answer = 42\n").into(),
        Fsync::data(&file).into(),
        Rename::new(c_path(&draft), c_path(&target)).into(),
    ];
    driver.submit_linked(chain).map_err(|(_, refusal)| refusal)?;

    let mut done = Vec::new();
    while done.len() < 3 {
        driver.wait(3 - done.len(), 3, None, &mut done)?;
    }
    for completion in &done {
        println!(
            "{}: {:?}",
            completion.op.as_ref().map_or("?", Op::name),
            completion.result
        );
    }
    assert_eq!(std::fs::read(&target)?, b"answer = 42\n");
    Ok(())
}

//! Polls a socket, with a timeout beside it: whichever comes first.

use proactor_engine::op::{Events, File, Poll, Timeout};
use proactor_engine::Driver;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (reader, mut writer) = UnixStream::pair()?;
    let mut driver = Driver::new()?;

    let poll = driver.submit(Poll::new(File::new(reader), Events::READABLE))?;
    let timeout = driver.submit(Timeout::new(Duration::from_secs(5)))?;
    let sender = std::thread::spawn(move || writer.write_all(b"!"));

    let mut done = Vec::new();
    driver.wait(1, 1, None, &mut done)?;
    assert_eq!(done[0].token, poll, "the writer is faster than five seconds");
    println!("the socket is ready: {:?}", done[0].events()?);
    println!("the timeout was stopped: {:?}", driver.cancel(timeout));
    sender.join().expect("the writer does not panic")?;
    Ok(())
}

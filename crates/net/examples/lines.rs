//! A server of whole lines on several threads: `cargo run --release -p proactor-net --example lines -- 127.0.0.1:7001 2`. It ends
//! with its standard input.

use proactor_net::serve::Line;
use proactor_net::{Config, Group, Plan, StartError, WorkerPlan};
use std::io::Read;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let address = args.next().unwrap_or_else(|| "127.0.0.1:0".into()).parse()?;
    let threads: usize = args.next().map_or(Ok(2), |text| text.parse())?;
    let worker = WorkerPlan {
        rings: vec![Config::default()],
        ..WorkerPlan::default()
    };
    let plan = Plan {
        addresses: vec![address],
        workers: vec![worker; threads.max(1)],
        accept_failed: Box::new(|error| eprintln!("no connection can be accepted for now: {error}")),
    };
    let group = Group::start(plan, |_| Line::default()).map_err(|error| match error {
        StartError::Listen(error) => error.to_string(),
        StartError::Worker(error) => error.to_string(),
    })?;
    println!("listening on {} ({})", group.addresses()[0], group.chosen()[0]);
    std::io::stdin().read_to_end(&mut Vec::new())?;
    // Connections that are open go on until their peers end them.
    group.drain();
    group.join()?;
    Ok(())
}

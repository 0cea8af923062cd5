//! A short measurement of an echo server, without and with a kernel worker.

use proactor_engine::SqPoll;
use proactor_net::placement::Placement;
use proactor_net::serve::Echo;
use proactor_net::{threads, Address, Config, Group, Plan, StartError, WorkerPlan};
use serde::Serialize;
use std::fmt;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const CONNECTIONS: usize = 16;
const MESSAGE_BYTES: usize = 512;
const DURATION: Duration = Duration::from_millis(400);
const PATIENCE: Duration = Duration::from_secs(5);
/// Time for which the user thread spins: the default of `proactor serve`.
const USER_SPIN: Duration = Duration::from_micros(50);

/// Measurement of an echo server.
#[derive(Serialize)]
pub(super) struct Measured {
    requests_per_s: f64,
    /// CPU time of the server's thread and its kernel worker.
    pub(super) cpu_us_per_request: f64,
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rate, cpu) = (self.requests_per_s, self.cpu_us_per_request);
        write!(
            f,
            "{rate:.0} echoes/s, {cpu:.1} us of CPU each ({CONNECTIONS} connections at once)"
        )
    }
}

/// Measures without a kernel worker, and with one.
pub(super) fn measure(placement: &Placement) -> Result<(Measured, Measured), String> {
    let worker = SqPoll::new(Duration::from_millis(100)).cpu(placement.kernel.first().copied());
    let without = Config::default().require_ring(true);
    let with_one = without.clone().kernel_worker(worker).user_spin(USER_SPIN);
    let cpu = placement.user.first().copied();
    Ok((run(without, cpu)?, run(with_one, cpu)?))
}

fn run(config: Config, cpu: Option<u32>) -> Result<Measured, String> {
    let plan = Plan {
        addresses: vec![Address::Inet(([127, 0, 0, 1], 0).into())],
        workers: vec![WorkerPlan {
            rings: vec![config],
            cpu,
            ..WorkerPlan::default()
        }],
        accept_failed: Box::new(|_| {}),
    };
    let group = Group::start(plan, |_| Echo).map_err(|error| match error {
        StartError::Listen(error) => error.to_string(),
        StartError::Worker(error) => error.to_string(),
    })?;
    let measured = echo(&group).map_err(|e| e.to_string());
    group.stop();
    group.join().map_err(|e| e.to_string())?;
    measured
}

/// Returns the processor time of the server's threads.
fn server_ns() -> std::io::Result<u64> {
    let is_server = |one: &threads::ThreadUse| one.is_kernel() || one.name.starts_with("worker-");
    Ok(threads::all()?
        .iter()
        .filter(|one| is_server(one))
        .map(|one| one.cpu_ns)
        .sum())
}

fn echo(group: &Group) -> std::io::Result<Measured> {
    let Some(Address::Inet(address)) = group.addresses().first() else {
        return Err(std::io::ErrorKind::AddrNotAvailable.into());
    };
    let mut streams = Vec::new();
    for _ in 0..CONNECTIONS {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        streams.push(stream);
    }
    let mut message = [7; MESSAGE_BYTES];
    let mut round = || -> std::io::Result<()> {
        for stream in &mut streams {
            stream.write_all(&message)?;
        }
        streams
            .iter_mut()
            .try_for_each(|stream| stream.read_exact(&mut message))
    };
    // All connections have been accepted before it counts.
    round()?;
    let (began, before) = (Instant::now(), server_ns()?);
    let mut requests = 0;
    while began.elapsed() < DURATION {
        round()?;
        requests += CONNECTIONS;
    }
    let elapsed = began.elapsed().as_secs_f64();
    let used = server_ns()?.saturating_sub(before) as f64 / 1000.0;
    Ok(Measured {
        requests_per_s: requests as f64 / elapsed,
        cpu_us_per_request: used / requests as f64,
    })
}

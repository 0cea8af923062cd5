//! Load on a server in one cell.

use crate::job::Measure;
use crate::units;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Protocol between client and server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// The server sends back what it receives.
    Echo,
    /// GET and SET of Redis's protocol.
    Resp,
    /// GET of HTTP/1.1.
    Http,
}

/// Published figures for the same work on another machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Published {
    /// Requests a second.
    pub requests_per_s: u32,
    /// Threads that were busy all the time.
    pub busy_threads: u32,
}

/// One cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// The server's name.
    pub server: String,
    /// Protocol of the requests.
    pub protocol: Protocol,
    /// Path of the requests, for HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Connections at once.
    pub connections: u32,
    /// Size of a message, or of a value, in bytes; 0 where the server decides.
    pub message_bytes: u64,
    /// Upper bound on requests in flight on each connection.
    pub depth: u32,
    /// Requests a second of all connections together, in an open loop; `None` for a closed one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<u64>,
    /// Share of SET in percent, and the number of keys, for RESP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sets: Option<(u8, u32)>,
    /// True to send to all connections, wait until all is served, and read then.
    pub lockstep: bool,
    /// Client threads.
    pub threads: u32,
    /// Duration of a round.
    pub runtime_ms: u64,
    /// Time before measuring starts.
    pub ramp_ms: u64,
    /// Published figures that are shown beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<Published>,
}

fn bytes(count: u64) -> String {
    format!("{} bytes", units::thousands(count as i64))
}

impl Load {
    /// Describes the work without the server, in one line. Different work has different words.
    pub fn work(&self) -> String {
        let what = match self.protocol {
            Protocol::Echo => format!("echo of {}", bytes(self.message_bytes)),
            Protocol::Resp => {
                let (percent, keys) = self.sets.unwrap_or_default();
                let size = bytes(self.message_bytes);
                format!("GET of {size} with {percent} % SET, {keys} keys")
            }
            Protocol::Http => format!("HTTP GET {}", self.path.as_deref().unwrap_or("/")),
        };
        let plural = if self.connections == 1 { "" } else { "s" };
        let mut text = format!(
            "{what}, {} connection{plural}, depth {}",
            self.connections, self.depth
        );
        text += &match (self.lockstep, self.rate) {
            (true, _) => ", lock-step".to_owned(),
            (false, Some(rate)) => format!(", {} requests a second", units::thousands(rate as i64)),
            (false, None) => ", closed loop".to_owned(),
        };
        if self.threads > 1 {
            text += &format!(", {} client threads", self.threads);
        }
        text += &format!(", for {}", units::seconds(self.runtime_ms as f64 / 1e3));
        if self.ramp_ms > 0 {
            text += &format!(" after {}", units::seconds(self.ramp_ms as f64 / 1e3));
        }
        text
    }

    /// Returns the number by which servers are compared: an open loop's rate is given, and lock-step has no
    /// rate.
    pub fn measure(&self) -> Measure {
        match (self.lockstep, self.rate) {
            (true, _) => Measure::Cpu,
            (false, Some(_)) => Measure::Latency,
            (false, None) => Measure::Iops,
        }
    }

    /// Returns a lower bound on the duration of a round.
    pub(super) fn planned(&self) -> Duration {
        Duration::from_millis(self.runtime_ms + self.ramp_ms)
    }

    pub(super) fn check(&self) -> Result<(), String> {
        if self.connections == 0 || self.depth == 0 || self.threads == 0 {
            return Err("--connections, --depth and --threads: at least 1".into());
        }
        if self.threads > self.connections {
            return Err(format!(
                "--threads {}: at most one for each connection ({})",
                self.threads, self.connections
            ));
        }
        if self.message_bytes == 0 && self.protocol != Protocol::Http {
            return Err("--size 0 asks for nothing".into());
        }
        if self.runtime_ms == 0 {
            return Err("--duration 0 measures nothing".into());
        }
        if self.lockstep && self.rate.is_some() {
            return Err("--lockstep and --rate: one of them".into());
        }
        if self.lockstep && self.threads > 1 {
            return Err("--lockstep has one client thread".into());
        }
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub fn load(protocol: Protocol) -> Load {
        Load {
            server: "it".into(),
            protocol,
            path: None,
            connections: 2,
            message_bytes: 512,
            depth: 1,
            rate: None,
            sets: None,
            lockstep: false,
            threads: 1,
            runtime_ms: 100,
            ramp_ms: 0,
            published: None,
        }
    }

    #[test]
    fn other_work_has_other_words() {
        let one = load(Protocol::Echo);
        let changes: [fn(&mut Load); 9] = [
            |load| load.protocol = Protocol::Resp,
            |load| load.protocol = Protocol::Http,
            |load| load.connections = 1,
            |load| load.message_bytes = 1,
            |load| load.depth = 2,
            |load| load.rate = Some(1000),
            |load| load.lockstep = true,
            |load| load.runtime_ms = 1,
            |load| load.ramp_ms = 1,
        ];
        let changed = changes.map(|change| {
            let mut other = one.clone();
            change(&mut other);
            other.work()
        });
        let words: std::collections::BTreeSet<_> = changed.iter().cloned().chain([one.work()]).collect();
        assert_eq!(words.len(), changes.len() + 1, "{words:?}");
    }

    #[test]
    fn what_cannot_be_asked() {
        let refused = |change: fn(&mut Load)| {
            let mut load = load(Protocol::Echo);
            change(&mut load);
            load.check().unwrap_err()
        };
        assert!(load(Protocol::Echo).check().is_ok());
        assert!(refused(|load| load.connections = 0).contains("at least 1"));
        assert!(refused(|load| load.threads = 3).contains("at most one for each connection"));
        assert!(refused(|load| load.message_bytes = 0).contains("--size 0"));
        assert!(refused(|load| load.runtime_ms = 0).contains("--duration 0"));
        assert!(refused(|load| (load.lockstep, load.rate) = (true, Some(1))).contains("one of them"));
    }
}

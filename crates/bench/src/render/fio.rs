//! In the shape of fio's JSON (`--output-format=json`), for tools that read that. A cell is a job, and its rounds together
//! are its run.

use crate::job::{Base, Cell};
use crate::report::{CellReport, Distribution, Report, Round, Way};
use serde_json::{json, Map, Value};

/// What fio would have written, as far as there is something to say.
pub fn fio(report: &Report) -> String {
    let jobs: Vec<Value> = report
        .cells
        .iter()
        .filter(|c| !c.rounds.is_empty())
        .enumerate()
        .filter_map(job)
        .collect();
    let whole = json!({
        "fio version": format!("proactor-{}", report.environment.proactor),
        "time": report.started,
        "global options": {},
        "jobs": jobs,
        "disk_util": [],
    });
    let mut text = serde_json::to_string_pretty(&whole).expect("plain data can be written");
    text.push('\n');
    text
}

/// None for what fio has no words for.
fn job((number, report): (usize, &CellReport)) -> Option<Value> {
    let cell = report.cell.io()?;
    let sum = |value: &dyn Fn(&Round) -> f64| report.rounds.iter().map(value).sum::<f64>();
    let elapsed_s = sum(&|r| r.elapsed_s);
    let percent = |seconds: f64| seconds / elapsed_s.max(f64::MIN_POSITIVE) * 100.0;
    let mut options = json!({
        "ioengine": engine(cell),
        "rw": cell.rw.name(),
        "bs": cell.bs.to_string(),
        "size": cell.size.to_string(),
        "iodepth": cell.iodepth.to_string(),
        "numjobs": cell.numjobs.to_string(),
        "direct": u8::from(cell.direct).to_string(),
    });
    if let (Some(ms), Some(map)) = (cell.runtime_ms, options.as_object_mut()) {
        map.insert("runtime".into(), format!("{ms}ms").into());
    }
    Some(json!({
        "jobname": format!("{} {}", cell.engine, cell.work()),
        "groupid": number,
        "error": 0,
        "elapsed": elapsed_s.ceil() as u64,
        "job options": options,
        "read": way(report, |r| &r.read, report.read_latency.as_ref(), elapsed_s),
        "write": way(report, |r| &r.write, report.write_latency.as_ref(), elapsed_s),
        "trim": way(report, |_| &NOTHING, None, elapsed_s),
        "job_runtime": (elapsed_s * 1e3) as u64,
        "usr_cpu": percent(sum(&|r| r.used.user_s)),
        "sys_cpu": percent(sum(&|r| r.used.system_s)),
        "ctx": sum(&|r| (r.used.voluntary + r.used.involuntary) as f64) as u64,
        "majf": sum(&|r| r.used.major_faults as f64) as u64,
        "minf": sum(&|r| r.used.minor_faults as f64) as u64,
        "latency_depth": cell.iodepth,
    }))
}

const NOTHING: Way = Way {
    ios: 0,
    bytes: 0,
    iops: 0.0,
    bytes_per_s: 0.0,
    mean_s: 0.0,
    p50_s: 0.0,
    p90_s: 0.0,
    p99_s: 0.0,
    p999_s: 0.0,
    max_s: 0.0,
};

/// fio's name of it, where it has one.
fn engine(cell: &Cell) -> String {
    match cell.engine.base {
        Base::Sync | Base::PsyncThreads => "psync".into(),
        Base::PosixAio => "posixaio".into(),
        Base::LinuxAio => "libaio".into(),
        Base::IoUring => "io_uring".into(),
    }
}

fn way(
    report: &CellReport,
    of: impl Fn(&Round) -> &Way,
    latency: Option<&Distribution>,
    elapsed_s: f64,
) -> Value {
    let bytes: u64 = report.rounds.iter().map(|r| of(r).bytes).sum();
    let ios: u64 = report.rounds.iter().map(|r| of(r).ios).sum();
    let rate = |count: u64| {
        if elapsed_s > 0.0 {
            count as f64 / elapsed_s
        } else {
            0.0
        }
    };
    json!({
        "io_bytes": bytes,
        "io_kbytes": bytes >> 10,
        "bw_bytes": rate(bytes) as u64,
        "bw": rate(bytes) as u64 >> 10,
        "iops": rate(ios),
        "runtime": (elapsed_s * 1e3) as u64,
        "total_ios": ios,
        "short_ios": 0,
        "drop_ios": 0,
        // An op's time begins when it is made, so there is no share of it before it is submitted.
        "slat_ns": times(None),
        "clat_ns": times(latency),
        "lat_ns": times(latency),
    })
}

fn times(latency: Option<&Distribution>) -> Value {
    let ns = |seconds: f64| (seconds * 1e9).round();
    let Some(latency) = latency else {
        return json!({"min": 0, "max": 0, "mean": 0.0, "stddev": 0.0, "N": 0});
    };
    let max = latency.percentiles.last().map_or(0.0, |p| p.1);
    let percentiles: Map<String, Value> = latency
        .percentiles
        .iter()
        .map(|(percent, seconds)| (format!("{percent:.6}"), Value::from(ns(*seconds) as u64)))
        .collect();
    json!({
        "min": ns(latency.min_s) as u64,
        "max": ns(max) as u64,
        "mean": ns(latency.mean_s),
        "stddev": ns(latency.deviation_s),
        "N": latency.ios,
        "percentile": percentiles,
    })
}

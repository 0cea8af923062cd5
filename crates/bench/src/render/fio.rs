//! Report in the shape of fio's JSON (`--output-format=json`), for tools that read that. A cell is a job, its
//! rounds together are its run, and each of them is a sample of its rates.
//!
//! Facts that are not measured are left out: how many ops were submitted and completed together
//! (`iodepth_submit`, `iodepth_complete`).

use crate::job::{Base, Cell};
use crate::report::{CellReport, Distribution, Report, Round, Way, DEPTH_LEVELS};
use crate::run::seconds_of;
use crate::stats::Sample;
use serde_json::{json, Map, Value};

/// Returns the JSON that fio would have written, as far as the facts are known.
pub fn fio(report: &Report) -> String {
    let jobs: Vec<Value> = report
        .cells
        .iter()
        .filter(|c| !c.rounds.is_empty() || c.failed.is_some())
        .enumerate()
        .filter_map(job)
        .collect();
    let whole = json!({
        "fio version": format!("proactor-{}", report.environment.proactor),
        "timestamp": seconds_of(&report.started),
        "timestamp_ms": seconds_of(&report.started).map(|seconds| seconds * 1000),
        "time": report.started,
        "global options": {},
        "jobs": jobs,
        "disk_util": [],
    });
    let mut text = serde_json::to_string_pretty(&whole).expect("plain data can be written");
    text.push('\n');
    text
}

/// Returns the job of a cell; `None` for one that fio cannot express.
fn job((number, report): (usize, &CellReport)) -> Option<Value> {
    let cell = report.cell.io()?;
    let sum = |value: &dyn Fn(&Round) -> f64| report.rounds.iter().map(value).sum::<f64>();
    let elapsed_s = sum(&|r| r.elapsed_s);
    let percent = |seconds: f64| seconds / elapsed_s.max(f64::MIN_POSITIVE) * 100.0;
    let mut options = json!({
        "ioengine": engine(cell),
        "rw": cell.rw.name(),
        "bs": match cell.bs_of_writes {
            Some(of_writes) => format!("{},{of_writes}", cell.bs),
            None => cell.bs.to_string(),
        },
        "size": cell.size.to_string(),
        "iodepth": cell.iodepth.to_string(),
        "numjobs": cell.numjobs.to_string(),
        "direct": u8::from(cell.direct).to_string(),
    });
    if let (Some(ms), Some(map)) = (cell.runtime_ms, options.as_object_mut()) {
        map.insert("runtime".into(), format!("{ms}ms").into());
    }
    let mut job = json!({
        "jobname": format!("{} {}", cell.engine, cell.work()),
        "groupid": number,
        // fio has an errno here. Ours is text, in the key `error_text`, which fio does not have.
        "error": if report.failed.is_some() { libc::EIO } else { 0 },
        "eta": 0,
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
        "iodepth_level": levels(report),
        "latency_depth": cell.iodepth,
        "latency_target": 0,
        "latency_percentile": 100.0,
        "latency_window": 0,
        "latency_ns": classes(report, 1, 1000),
        "latency_us": classes(report, 1_000, 1000),
        "latency_ms": classes(report, 1_000_000, 2000),
        // Their time is in the latency of what they delay, and nowhere by itself.
        "sync": {"total_ios": sum(&|r| r.fsyncs as f64) as u64, "lat_ns": times(None)},
    });
    if let (Some(why), Some(map)) = (&report.failed, job.as_object_mut()) {
        map.insert("error_text".into(), why.as_str().into());
    }
    Some(job)
}

/// Returns the shares of ops, in percent, by the number in flight when they began, named after the lower
/// bound as fio does.
fn levels(report: &CellReport) -> Map<String, Value> {
    const NAMES: [&str; DEPTH_LEVELS] = ["1", "2", "4", "8", "16", "32", ">=64"];
    let count = |level: usize| -> u64 {
        let depths = report.rounds.iter().filter_map(|round| round.depth);
        depths.map(|depth| depth.levels[level]).sum()
    };
    let all: u64 = (0..DEPTH_LEVELS).map(count).sum();
    let share = |level| count(level) as f64 / all.max(1) as f64 * 100.0;
    NAMES
        .iter()
        .enumerate()
        .map(|(level, name)| ((*name).to_owned(), Value::from(share(level))))
        .collect()
}

/// Returns the shares of ops, in percent, in the classes of this unit, named after their upper bound as fio
/// does. The last class of all holds what took longer.
fn classes(report: &CellReport, unit_ns: u64, last: u64) -> Map<String, Value> {
    let ways = [&report.read_latency, &report.write_latency];
    let ways: Vec<&Distribution> = ways.into_iter().flatten().collect();
    let all: u64 = ways.iter().map(|way| way.ios).sum();
    let percent = |ops: u64| Value::from(ops as f64 / all.max(1) as f64 * 100.0);
    let mut named: Map<String, Value> = Map::new();
    let bounds: Vec<u64> = ways
        .first()
        .map_or(vec![], |way| way.classes.iter().map(|c| c.0).collect());
    for bound in bounds
        .iter()
        .filter(|bound| (2 * unit_ns..=last * unit_ns).contains(bound))
    {
        let within = ways
            .iter()
            .flat_map(|way| &way.classes)
            .filter(|class| class.0 == *bound);
        named.insert(
            (bound / unit_ns).to_string(),
            percent(within.map(|class| class.1).sum()),
        );
    }
    if bounds.last() == Some(&(last * unit_ns)) {
        let known: u64 = ways
            .iter()
            .flat_map(|way| &way.classes)
            .map(|class| class.1)
            .sum();
        named.insert(format!(">={last}"), percent(all.saturating_sub(known)));
    }
    named
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

/// Returns fio's name of the engine, where it has one.
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
    let sample = |value: &dyn Fn(&Way) -> f64| Sample::of(report.rounds.iter().map(|r| value(of(r))));
    let bw = sample(&|way| way.bytes_per_s / 1024.0);
    let iops = sample(&|way| way.iops);
    let samples = if ios > 0 { report.rounds.len() } else { 0 };
    json!({
        "bw_min": bw.min as u64,
        "bw_max": bw.max as u64,
        "bw_agg": if ios > 0 { 100.0 } else { 0.0 },
        "bw_mean": bw.mean,
        "bw_dev": bw.deviation,
        "bw_samples": samples,
        "iops_min": iops.min as u64,
        "iops_max": iops.max as u64,
        "iops_mean": iops.mean,
        "iops_stddev": iops.deviation,
        "iops_samples": samples,
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

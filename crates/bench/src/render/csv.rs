//! CSV: one row for each round of each cell, so that a data frame has all there is, and one for each cell
//! that failed.

use super::rows;
use crate::job::Cell;
use crate::net::Published;
use crate::report::{Report, Round};
use crate::subject::Subject;
use crate::usage::Used;

/// Formats a report with a header row.
pub fn csv(report: &Report) -> String {
    let mut out = String::from(
        "engine,work,rw,size,bs,bs_of_writes,iodepth,numjobs,direct,thinktime_us,round,elapsed_s,read_ios,read_bytes,write_ios,\
         write_bytes,iops,bytes_per_s,mean_s,p50_s,p90_s,p99_s,p999_s,max_s,user_s,system_s,voluntary,involuntary,\
         device_read_bytes,peak_rss_bytes,calls_per_op,submissions,depth_most,busy_cores,published_requests_per_s,published_busy_threads,failed\n",
    );
    for report in &report.cells {
        let cell = &report.cell;
        let io = |field: &dyn Fn(&Cell) -> String| cell.io().map_or(String::new(), field);
        let calls = report
            .counted
            .as_ref()
            .map_or(String::new(), |c| c.per_op().to_string());
        let work = [
            quoted(&cell.contender()),
            quoted(&cell.work()),
            io(&|cell| cell.rw.to_string()),
            io(&|cell| cell.size.to_string()),
            io(&|cell| cell.bs.to_string()),
            io(&|cell| cell.bs_of_writes.map_or(String::new(), |bytes| bytes.to_string())),
            io(&|cell| cell.iodepth.to_string()),
            io(&|cell| cell.numjobs.to_string()),
            io(&|cell| u8::from(cell.direct).to_string()),
            io(&|cell| cell.thinktime_us.to_string()),
        ];
        let published = |field: &dyn Fn(&Published) -> u32| {
            let published = cell.net().and_then(|load| load.published);
            published.map_or(String::new(), |it| field(&it).to_string())
        };
        for (number, round) in report.rounds.iter().enumerate() {
            let optional = |value: Option<u64>| value.map_or(String::new(), |v| v.to_string());
            let all = &round.all;
            let numbers = [
                (number + 1).to_string(),
                round.elapsed_s.to_string(),
                round.read.ios.to_string(),
                round.read.bytes.to_string(),
                round.write.ios.to_string(),
                round.write.bytes.to_string(),
                all.iops.to_string(),
                all.bytes_per_s.to_string(),
                all.mean_s.to_string(),
                all.p50_s.to_string(),
                all.p90_s.to_string(),
                all.p99_s.to_string(),
                all.p999_s.to_string(),
                all.max_s.to_string(),
                round.used.user_s.to_string(),
                round.used.system_s.to_string(),
                round.used.voluntary.to_string(),
                round.used.involuntary.to_string(),
                optional(round.used.process_read_bytes),
                optional(round.used.peak_rss_bytes),
                calls.clone(),
                optional(round.submissions),
                optional(round.depth.map(|depth| depth.most)),
                busy_cores(cell, round),
                published(&|it| it.requests_per_s),
                published(&|it| it.busy_threads),
                String::new(),
            ];
            out += &format!("{},{}\n", work.join(","), numbers.join(","));
        }
        // The round that failed has no numbers.
        if let Some(why) = &report.failed {
            let columns = out.lines().next().map_or(0, |head| head.split(',').count());
            let empty = ",".repeat(columns - work.len() - 1);
            out += &format!("{}{empty},{}\n", work.join(","), quoted(why));
        }
    }
    out
}

/// Returns the busy cores of a server under load, if its process is known. In lock-step the server waits for
/// the client most of the time.
fn busy_cores(cell: &Subject, round: &Round) -> String {
    let under_load = cell.net().is_some_and(|load| !load.lockstep);
    match under_load && round.used != Used::default() {
        true => rows::busy_cores(round).to_string(),
        false => String::new(),
    }
}

/// Quotes a text as a field.
fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

//! One row for each round of each cell, so that a data frame has all there is.

use crate::job::Cell;
use crate::report::Report;

/// With a head.
pub fn csv(report: &Report) -> String {
    let mut out = String::from(
        "engine,work,rw,size,bs,iodepth,numjobs,direct,thinktime_us,round,elapsed_s,read_ios,read_bytes,write_ios,\
         write_bytes,iops,bytes_per_s,mean_s,p50_s,p90_s,p99_s,p999_s,max_s,user_s,system_s,voluntary,involuntary,\
         device_read_bytes,peak_rss_bytes,calls_per_op,submissions\n",
    );
    for report in &report.cells {
        let cell = &report.cell;
        let io = |field: &dyn Fn(&Cell) -> String| cell.io().map_or(String::new(), field);
        let calls = report
            .counted
            .as_ref()
            .map_or(String::new(), |c| c.per_op().to_string());
        for (number, round) in report.rounds.iter().enumerate() {
            let optional = |value: Option<u64>| value.map_or(String::new(), |v| v.to_string());
            let all = &round.all;
            let fields = [
                quoted(&cell.contender()),
                quoted(&cell.work()),
                io(&|cell| cell.rw.to_string()),
                io(&|cell| cell.size.to_string()),
                io(&|cell| cell.bs.to_string()),
                io(&|cell| cell.iodepth.to_string()),
                io(&|cell| cell.numjobs.to_string()),
                io(&|cell| u8::from(cell.direct).to_string()),
                io(&|cell| cell.thinktime_us.to_string()),
                (number + 1).to_string(),
                round.elapsed_s.to_string(),
                round.read.ios.to_string(),
                round.read.bytes.to_string(),
                round.write.ios.to_string(),
                round.write.bytes.to_string(),
                all.iops.to_string(),
                report.bandwidth(round).to_string(),
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
            ];
            out += &fields.join(",");
            out.push('\n');
        }
    }
    out
}

/// A text as a field.
fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

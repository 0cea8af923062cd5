//! fio's job files, for the common options: each section becomes a [`Job`] with fio's defaults.
//!
//! What is not understood is refused by name and line, because a benchmark that leaves out an option measures something
//! else. Sections run one after the other, as with fio's `stonewall`.

use crate::job::{Base, Cache, EngineSpec, Job, Measure, Rw, Task};
use crate::units::{parse_bytes, parse_micros, parse_seconds};
use std::path::PathBuf;
use std::time::Duration;

/// What a file asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct JobFile {
    /// Each section, in order.
    pub jobs: Vec<Job>,
    /// The file to work in, if one is named.
    pub filename: Option<PathBuf>,
    /// The directory to work in, if one is named.
    pub directory: Option<PathBuf>,
}

/// What changes nothing here: names, how fio reports, and what we do anyway.
const IGNORED: &[&str] = &[
    "name",
    "description",
    "stonewall",
    "wait_for_previous",
    "thread",
    "randrepeat",
    "refill_buffers",
    "unlink",
    "group_reporting",
    "new_group",
    "clat_percentiles",
    "lat_percentiles",
    "percentile_list",
    "per_job_logs",
    "log_avg_msec",
    "write_bw_log",
    "write_iops_log",
    "write_lat_log",
];

impl JobFile {
    /// From the text of a job file.
    ///
    /// # Errors
    /// The first line that is not understood, with its number.
    pub fn parse(text: &str) -> Result<JobFile, String> {
        let mut file = JobFile {
            jobs: Vec::new(),
            filename: None,
            directory: None,
        };
        let mut global = defaults();
        let mut section: Option<Section> = None;
        for (number, line) in text.lines().enumerate() {
            let at = |why: String| format!("line {}: {why}", number + 1);
            let line = without_comment(line);
            if line.is_empty() {
                continue;
            }
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                file.jobs.extend(
                    section
                        .take()
                        .map(|done| done.end(&mut global))
                        .transpose()
                        .map_err(at)?
                        .flatten(),
                );
                section = Some(Section {
                    name: name.to_owned(),
                    job: global.clone(),
                });
                continue;
            }
            let current = section
                .as_mut()
                .ok_or_else(|| at(format!("{line:?} before any [section]")))?;
            let line = with_variables(line).map_err(at)?;
            let (key, value) = match line.split_once('=') {
                Some((key, value)) => (key.trim(), Some(value.trim())),
                None => (line.as_str(), None),
            };
            set(
                &mut current.job,
                &mut file.filename,
                &mut file.directory,
                key,
                value,
            )
            .map_err(at)?;
        }
        file.jobs
            .extend(section.map(|done| done.end(&mut global)).transpose()?.flatten());
        if file.jobs.is_empty() {
            return Err("no job: a section that is not [global]".into());
        }
        Ok(file)
    }
}

/// From a `#` or `;` on, wherever it stands: so fio does, which has no quotes.
fn without_comment(line: &str) -> &str {
    line.split(['#', ';']).next().unwrap_or_default().trim()
}

/// `${NAME}` is what the environment has under that name.
fn with_variables(line: &str) -> Result<String, String> {
    let (mut text, mut rest) = (String::new(), line);
    while let Some((before, behind)) = rest.split_once("${") {
        let (name, after) = behind
            .split_once('}')
            .ok_or_else(|| format!("{line:?}: a variable ends with }}"))?;
        let value = std::env::var(name).map_err(|_| format!("${{{name}}} is not in the environment"))?;
        text += before;
        text += &value;
        rest = after;
    }
    Ok(text + rest)
}

struct Section {
    name: String,
    job: Job,
}

impl Section {
    /// A job, unless it is what all that follow begin with.
    fn end(self, global: &mut Job) -> Result<Option<Job>, String> {
        if self.name == "global" {
            *global = self.job;
            return Ok(None);
        }
        if self.job.size == [0] {
            return Err(format!("[{}] has no size", self.name));
        }
        let random = self.job.rw.iter().all(|rw| rw.is_random());
        Ok(Some(Job {
            measure: if random { Measure::Iops } else { Measure::Bandwidth },
            ..self.job
        }))
    }
}

/// fio's.
fn defaults() -> Job {
    Job {
        engine: vec![EngineSpec::plain(Base::Sync)],
        rw: vec![Rw::Read],
        size: vec![0],
        iodepth: vec![1],
        direct: vec![false],
        batch: 1,
        complete_max: 1,
        runtime: None,
        time_based: false,
        ..Job::of(Task::Iops)
    }
}

fn set(
    job: &mut Job,
    filename: &mut Option<PathBuf>,
    directory: &mut Option<PathBuf>,
    key: &str,
    value: Option<&str>,
) -> Result<(), String> {
    if IGNORED.contains(&key) {
        return Ok(());
    }
    let flag = || match value {
        None | Some("1") => Ok(true),
        Some("0") => Ok(false),
        Some(other) => Err(format!("{key}={other}: 0 or 1")),
    };
    let given = || value.ok_or_else(|| format!("{key} needs a value"));
    let number = || given()?.parse().map_err(|_| format!("{key}: no whole number"));
    match key {
        "ioengine" => job.engine = vec![given()?.parse()?],
        "rw" | "readwrite" => job.rw = vec![given()?.parse()?],
        "bs" | "blocksize" => job.bs = vec![parse_bytes(given()?)?],
        "size" => job.size = vec![parse_bytes(given()?)?],
        "iodepth" => job.iodepth = vec![number()?],
        "iodepth_batch" | "iodepth_batch_submit" => job.batch = number()?,
        "iodepth_batch_complete_max" => job.complete_max = number()?,
        "numjobs" => job.numjobs = vec![number()?],
        "direct" => job.direct = vec![flag()?],
        "buffered" => job.direct = vec![!flag()?],
        "fsync" => job.fsync = number()?,
        "end_fsync" => job.end_fsync = flag()?,
        "rwmixread" => {
            job.rwmixread = u8::try_from(number()?).map_err(|_| format!("{key}: a share in percent"))?
        }
        "rwmixwrite" => {
            let writes: u32 = number()?;
            let reads = 100u32.checked_sub(writes);
            job.rwmixread = reads.ok_or_else(|| format!("{key}: a share in percent"))? as u8;
        }
        // More would be other work; one is what we have.
        "nrfiles" if number()? == 1 => {}
        "nrfiles" => return Err(format!("{key}: each job has one file")),
        "runtime" => job.runtime = Some(parse_seconds(given()?)?).filter(|time| *time > Duration::ZERO),
        "time_based" => job.time_based = flag()?,
        "ramp_time" => job.ramp_time = parse_seconds(given()?)?,
        "thinktime" => job.thinktime = vec![parse_micros(given()?)?],
        "invalidate" => job.cache = if flag()? { Cache::Dropped } else { Cache::Left },
        "pre_read" => job.cache = if flag()? { Cache::Warmed } else { job.cache },
        "norandommap" => job.norandommap = flag()?,
        "filename" => once(filename, key, given()?)?,
        "directory" => once(directory, key, given()?)?,
        _ => return Err(format!("{key}: not understood here")),
    }
    Ok(())
}

/// All sections work in one place, so that they can be compared.
fn once(place: &mut Option<PathBuf>, key: &str, value: &str) -> Result<(), String> {
    if value.replace(r"\:", "").contains(':') {
        return Err(format!(r"{key}: one only, in whose name a colon is \:"));
    }
    let value = value.replace(r"\:", ":");
    if place
        .as_ref()
        .is_some_and(|known| known.as_os_str() != value.as_str())
    {
        return Err(format!("{key}: one for all sections"));
    }
    *place = Some(value.into());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_fio_reads_it() {
        let text = "; a comment\n[global]\nioengine=libaio\ndirect=1\nsize=64m\nruntime=10\ntime_based\n\n\
                    [first]\nrw=randread\nbs=4k\niodepth=16\n\n# another\n[second]\nrw = write\nbuffered=1\nbs=1M\nstonewall\n";
        let file = JobFile::parse(text).unwrap();
        let [first, second] = file.jobs.as_slice() else {
            panic!("{file:?}")
        };
        assert_eq!((first.iodepth[0], first.bs[0], first.direct[0]), (16, 4096, true));
        assert_eq!(
            (first.rw[0], first.measure, first.batch),
            (Rw::RandRead, Measure::Iops, 1)
        );
        assert_eq!(
            (second.iodepth[0], second.bs[0], second.direct[0]),
            (1, 1 << 20, false)
        );
        assert_eq!((second.rw[0], second.measure), (Rw::Write, Measure::Bandwidth));
        for job in &file.jobs {
            assert_eq!(job.engine[0].base, Base::LinuxAio);
            assert_eq!(job.runtime, Some(Duration::from_secs(10)));
            assert!(job.time_based && job.size[0] == 64 << 20);
        }
    }

    #[test]
    fn comments_and_variables() {
        // Every test has this one.
        let here = std::env::var("CARGO_MANIFEST_DIR").unwrap();
        let text = "[a] ; a section\nsize=1m # a size\nrw=randrw;mixed\nrwmixwrite=30\nnrfiles=1\n\
                    directory=${CARGO_MANIFEST_DIR}/x\nfilename=a\\:b\nwrite_bw_log=log\nwait_for_previous\n";
        let file = JobFile::parse(text).unwrap();
        assert_eq!(file.directory, Some(format!("{here}/x").into()));
        assert_eq!(file.filename, Some("a:b".into()));
        let job = &file.jobs[0];
        assert_eq!((job.size[0], job.rw[0], job.rwmixread), (1 << 20, Rw::RandRw, 70));
    }

    #[test]
    fn refused_by_name_and_line() {
        for (text, why) in [
            ("", "no job"),
            ("[global]\nbs=4k\n", "no job"),
            ("rw=read\n", "line 1"),
            ("[a]\nsize=1m\nzonemode=zbd\n", "line 3: zonemode"),
            ("[a]\nsize=1m\nrw=trim\n", "line 3"),
            ("[a]\nsize=1m\ndirect=2\n", "line 3"),
            ("[a]\nsize=1m\niodepth\n", "line 3: iodepth needs a value"),
            ("[a]\nsize=1m\nnrfiles=2\n", "line 3: nrfiles"),
            ("[a]\nsize=1m\nrwmixwrite=101\n", "line 3: rwmixwrite"),
            ("[a]\nsize=${NO_SUCH_SIZE}\n", "line 2: ${NO_SUCH_SIZE} is not"),
            ("[a]\nsize=${NO_SUCH_SIZE\n", "line 2"),
            ("[a]\nrw=read\n", "[a] has no size"),
            ("[a]\nsize=1m\nfilename=x:y\n", "line 3: filename: one only"),
            ("[a]\nsize=1m\nramp_time=500us\n", "line 3: \"500us\""),
            ("[a]\nsize=1m\nfilename=x\n[b]\nfilename=y\n", "line 5: filename"),
        ] {
            let found = JobFile::parse(text).unwrap_err();
            assert!(found.contains(why), "{text:?}: {found}");
        }
    }
}

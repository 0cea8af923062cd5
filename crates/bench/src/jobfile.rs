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
    "group_reporting",
    "stonewall",
    "thread",
    "randrepeat",
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
            let line = line.trim();
            if line.is_empty() || line.starts_with(['#', ';']) {
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
            let (key, value) = match line.split_once('=') {
                Some((key, value)) => (key.trim(), Some(value.trim())),
                None => (line, None),
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
    if place.as_ref().is_some_and(|known| known.as_os_str() != value) {
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
    fn refused_by_name_and_line() {
        for (text, why) in [
            ("", "no job"),
            ("[global]\nbs=4k\n", "no job"),
            ("rw=read\n", "line 1"),
            ("[a]\nsize=1m\nzonemode=zbd\n", "line 3: zonemode"),
            ("[a]\nsize=1m\nrw=trim\n", "line 3"),
            ("[a]\nsize=1m\ndirect=2\n", "line 3"),
            ("[a]\nsize=1m\niodepth\n", "line 3: iodepth needs a value"),
            ("[a]\nrw=read\n", "[a] has no size"),
            ("[a]\nsize=1m\nfilename=x\n[b]\nfilename=y\n", "line 5: filename"),
        ] {
            let found = JobFile::parse(text).unwrap_err();
            assert!(found.contains(why), "{text:?}: {found}");
        }
    }
}

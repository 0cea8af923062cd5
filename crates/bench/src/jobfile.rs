//! fio's job files, for the common options: each section becomes a [`Job`] with fio's defaults.
//!
//! An option that is not supported is refused by name and line, because a benchmark that leaves out an option
//! measures something else. Sections run at once, as with fio, and one with `stonewall` waits for those
//! before it.

use crate::choice::percent_of;
use crate::job::{Base, Cache, EngineSpec, IoSize, Job, Measure, Rw, Task};
use crate::units::{parse_bytes, parse_micros, parse_seconds};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Contents of a job file. Printed, it is a job file with the same meaning.
#[derive(Debug, Clone, PartialEq)]
pub struct JobFile {
    /// Each section, in order.
    pub sections: Vec<Section>,
    /// The file to work in, if one is named.
    pub filename: Option<PathBuf>,
    /// The directory to work in, if one is named.
    pub directory: Option<PathBuf>,
}

/// A section that is a job.
#[derive(Debug, Clone, PartialEq)]
pub struct Section {
    /// Name in the brackets.
    pub name: String,
    /// Job of the section.
    pub job: Job,
    /// Size as a share of the file's, in percent; `job.size` is 0 then.
    pub size_percent: Option<u8>,
    /// True if it begins when those before it have ended, and not at once with them.
    pub waits: bool,
}

impl Section {
    /// Sets `job.size` to the share `size_percent` of a file of this length.
    pub fn resolve(&mut self, file_bytes: u64) {
        if let Some(percent) = self.size_percent.take() {
            self.job.size = vec![percent_of(percent, file_bytes)];
        }
    }
}

/// Options that change nothing here: names, fio's reporting, and our own defaults.
const IGNORED: &[&str] = &[
    "name",
    "description",
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
    /// Parses the text of a job file.
    ///
    /// # Errors
    /// The first line that is not supported, with its number.
    pub fn parse(text: &str) -> Result<JobFile, String> {
        let mut file = JobFile {
            sections: Vec::new(),
            filename: None,
            directory: None,
        };
        let mut global = defaults();
        let mut section: Option<Read> = None;
        for (number, line) in text.lines().enumerate() {
            let at = |why: String| format!("line {}: {why}", number + 1);
            let line = without_comment(line);
            if line.is_empty() {
                continue;
            }
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                let done = section.take().map(|done| done.end(&mut global));
                file.sections.extend(done.transpose().map_err(at)?.flatten());
                section = Some(Read {
                    name: name.to_owned(),
                    ..global.clone()
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
            set(current, &mut file.filename, &mut file.directory, key, value).map_err(at)?;
        }
        let last = section.map(|done| done.end(&mut global)).transpose()?;
        file.sections.extend(last.flatten());
        if file.sections.is_empty() {
            return Err("no job: a section that is not [global]".into());
        }
        Ok(file)
    }
}

/// Removes a comment, from a `#` or `;` on, wherever it is: so does fio, which has no quotes.
fn without_comment(line: &str) -> &str {
    line.split(['#', ';']).next().unwrap_or_default().trim()
}

/// Replaces `${NAME}` by the environment variable of that name.
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

/// A section while it is parsed.
#[derive(Clone)]
struct Read {
    name: String,
    job: Job,
    size_percent: Option<u8>,
    waits: bool,
}

impl Read {
    /// Returns the job of a section; a `[global]` section becomes the defaults of all that follow.
    fn end(self, global: &mut Read) -> Result<Option<Section>, String> {
        if self.name == "global" {
            *global = self;
            return Ok(None);
        }
        let mut job = self.job;
        if job.size == [0] && self.size_percent.is_none() {
            return Err(format!("[{}] has no size", self.name));
        }
        let rw = job.rw[0];
        job.measure = match rw.is_random() {
            true => Measure::Iops,
            false => Measure::Bandwidth,
        };
        Ok(Some(Section {
            name: self.name,
            job,
            size_percent: self.size_percent,
            waits: self.waits,
        }))
    }
}

/// Returns fio's defaults.
fn defaults() -> Read {
    let job = Job {
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
    };
    Read {
        name: String::new(),
        job,
        size_percent: None,
        waits: false,
    }
}

/// Parses `50%`.
fn parse_percent(text: &str) -> Option<Result<u8, String>> {
    let number = text.trim().strip_suffix('%')?.parse();
    Some(match number {
        Ok(percent @ 1..=100) => Ok(percent),
        _ => Err(format!("{text:?}: from 1% to 100%")),
    })
}

/// Parses `4k`, `4k,16k` or `4k,16k,64k`: sizes of reads, of writes, and of trims, which are not supported.
fn set_block_sizes(section: &mut Read, text: &str) -> Result<(), String> {
    let mut sizes = text.split(',').map(str::trim);
    let reads = sizes.next().filter(|size| !size.is_empty());
    if let Some(size) = reads {
        section.job.bs = vec![parse_bytes(size)?];
        section.job.bs_of_writes = None;
    }
    if let Some(size) = sizes.next().filter(|size| !size.is_empty()) {
        section.job.bs_of_writes = Some(parse_bytes(size)?);
    }
    sizes.next().map(parse_bytes).transpose()?;
    match (reads, sizes.next()) {
        (_, Some(_)) => Err(format!("{text:?}: three block sizes at most")),
        (None, _) if section.job.bs_of_writes.is_none() => Err(format!("{text:?}: a block size")),
        _ => Ok(()),
    }
}

fn set(
    section: &mut Read,
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
    let number = || {
        given()?
            .parse::<u32>()
            .map_err(|_| format!("{key}: no whole number"))
    };
    match key {
        "bs" | "blocksize" => return set_block_sizes(section, given()?),
        "size" => {
            section.size_percent = parse_percent(given()?).transpose()?;
            section.job.size = vec![match section.size_percent {
                Some(_) => 0,
                None => parse_bytes(given()?)?,
            }];
            return Ok(());
        }
        "stonewall" | "wait_for_previous" => {
            section.waits = flag()?;
            return Ok(());
        }
        _ => {}
    }
    let job = &mut section.job;
    match key {
        "ioengine" => job.engine = vec![given()?.parse()?],
        "rw" | "readwrite" => job.rw = vec![given()?.parse()?],
        "io_size" | "io_limit" => job.io_size = given()?.parse::<IoSize>()?.unless_zero(),
        "loops" => job.loops = u64::from(number()?.max(1)),
        "rate_iops" => job.rate_iops = given()?.parse()?,
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
        // More files would be different work; one is what we have.
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

/// Sets a place once: all sections work in one place, so that they can be compared.
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

impl fmt::Display for JobFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (key, place) in [("filename", &self.filename), ("directory", &self.directory)] {
            if let Some(path) = place {
                let text = path.to_string_lossy().replace(':', r"\:");
                writeln!(f, "[global]\n{key}={text}")?;
            }
        }
        self.sections.iter().try_for_each(|section| section.fmt(f))
    }
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let job = &self.job;
        writeln!(f, "[{}]", self.name)?;
        writeln!(f, "ioengine={}\nrw={}", job.engine[0], job.rw[0])?;
        match job.bs_of_writes {
            Some(of_writes) => writeln!(f, "bs={},{of_writes}", job.bs[0])?,
            None => writeln!(f, "bs={}", job.bs[0])?,
        }
        match self.size_percent {
            Some(percent) => writeln!(f, "size={percent}%")?,
            None => writeln!(f, "size={}", job.size[0])?,
        }
        let io_size = job.io_size.unwrap_or(IoSize::Bytes(0));
        writeln!(f, "io_size={io_size}\nloops={}", job.loops)?;
        writeln!(f, "iodepth={}\niodepth_batch={}", job.iodepth[0], job.batch)?;
        writeln!(f, "iodepth_batch_complete_max={}", job.complete_max)?;
        writeln!(
            f,
            "numjobs={}\ndirect={}",
            job.numjobs[0],
            u8::from(job.direct[0])
        )?;
        writeln!(f, "fsync={}\nend_fsync={}", job.fsync, u8::from(job.end_fsync))?;
        writeln!(f, "rwmixread={}\nrate_iops={}", job.rwmixread, job.rate_iops)?;
        let runtime = job.runtime.unwrap_or_default().as_millis();
        writeln!(f, "runtime={runtime}ms\ntime_based={}", u8::from(job.time_based))?;
        writeln!(f, "ramp_time={}ms", job.ramp_time.as_millis())?;
        writeln!(f, "thinktime={}us", job.thinktime[0].as_micros())?;
        f.write_str(match job.cache {
            Cache::Dropped => "invalidate=1\n",
            Cache::Left => "invalidate=0\n",
            Cache::Warmed => "pre_read=1\n",
        })?;
        writeln!(f, "norandommap={}", u8::from(job.norandommap))?;
        writeln!(f, "stonewall={}", u8::from(self.waits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_fio_reads_it() {
        let text = "; a comment\n[global]\nioengine=libaio\ndirect=1\nsize=64m\nruntime=10\ntime_based\n\n\
                    [first]\nrw=randread\nbs=4k\niodepth=16\n\n# another\n[second]\nrw = write\nbuffered=1\nbs=1M\nstonewall\n";
        let file = JobFile::parse(text).unwrap();
        let [first, second] = file.sections.as_slice() else {
            panic!("{file:?}")
        };
        assert_eq!((first.waits, second.waits), (false, true));
        let (first, second) = (&first.job, &second.job);
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
        for job in file.sections.iter().map(|section| &section.job) {
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
        let job = &file.sections[0].job;
        assert_eq!((job.size[0], job.rw[0], job.rwmixread), (1 << 20, Rw::RandRw, 70));
    }

    #[test]
    fn a_size_and_a_rate_for_each_way() {
        let text = "[global]\nsize=1m\nbs=4k,64k\nrate_iops=300,100\nio_size=50%\n\
                    [both]\nrw=randrw\n[reads]\nrw=read\n[writes]\nrw=write\n";
        let file = JobFile::parse(text).unwrap();
        let found: Vec<_> = file
            .sections
            .iter()
            .map(|section| {
                let cell = section.job.cells().remove(0);
                let rates = (cell.rate_iops, cell.rate_iops_of_writes);
                (cell.bs, cell.write_bytes(), rates, cell.bytes_a_job())
            })
            .collect();
        let half = 512 << 10;
        assert_eq!(
            found,
            [
                (4 << 10, 64 << 10, (Some(300), Some(100)), half),
                (4 << 10, 4 << 10, (Some(300), None), half),
                (64 << 10, 64 << 10, (Some(100), None), half),
            ]
        );
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
            ("[a]\nsize=1m\nrate_iops=1,2,3,4\n", "line 3"),
            ("[a]\nsize=1m\nio_size=101%\n", "line 3"),
            ("[a]\nsize=1m\nbs=1,2,3,4\n", "line 3"),
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

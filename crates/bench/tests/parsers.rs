//! The parsers of job files and of fio's words, on text that resembles what they take: none panics, and what is accepted
//! prints back to the same.

use proactor_bench::job::{EngineSpec, Rw};
use proactor_bench::jobfile::JobFile;
use proactor_bench::units::{bytes, parse_bytes, parse_micros, parse_seconds};
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, RngSeed};

const KEYS: &[&str] = &[
    "ioengine",
    "rw",
    "readwrite",
    "bs",
    "blocksize",
    "size",
    "io_size",
    "loops",
    "rate_iops",
    "iodepth",
    "iodepth_batch",
    "iodepth_batch_submit",
    "iodepth_batch_complete_max",
    "numjobs",
    "direct",
    "buffered",
    "fsync",
    "end_fsync",
    "rwmixread",
    "rwmixwrite",
    "nrfiles",
    "runtime",
    "time_based",
    "ramp_time",
    "thinktime",
    "invalidate",
    "pre_read",
    "norandommap",
    "filename",
    "directory",
    "stonewall",
    "wait_for_previous",
    "group_reporting",
    "zonemode",
];

fn value() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "0",
        "1",
        "4k",
        "4k,8k",
        ",8k",
        "300,600",
        "1,2,3,4",
        "50%",
        "100%",
        "101%",
        "read",
        "write",
        "randread",
        "randrw",
        "rw",
        "copy",
        "sync",
        "psync",
        "libaio",
        "io_uring",
        "io_uring:fixed+raw",
        "posix-aio:raw",
        "10s",
        "10ms",
        "1h",
        "7us",
        "1m",
        "18446744073709551615",
        "99999999999t",
        "4294967296",
        "a\\:b",
        "a:b",
        "%",
        "",
        "é",
        "${",
        "${NO_SUCH}",
    ]);
    prop_oneof![
        8 => words.prop_map(str::to_owned),
        2 => any::<u32>().prop_map(|number| number.to_string()),
        1 => "[ -~]{0,12}",
    ]
}

fn line() -> impl Strategy<Value = String> {
    let key = prop::sample::select(KEYS);
    prop_oneof![
        12 => (key, value()).prop_map(|(key, value)| format!("{key}={value}")),
        2 => prop::sample::select(KEYS).prop_map(str::to_owned),
        3 => "\\[[a-z\\] ]{0,4}\\]",
        1 => Just("[global]".to_owned()),
        1 => "[#;]?[ -~]{0,16}",
    ]
}

/// Lines that each are accepted by themselves, so that whole files are accepted too.
fn fitting_line() -> impl Strategy<Value = String> {
    let number = 0u32..2000;
    prop_oneof![
        prop::sample::select(vec![
            "rw=read",
            "rw=randwrite",
            "rw=rw",
            "rw=randrw",
            "bs=4k",
            "bs=8k,8k",
            "bs=,4k",
            "bs=4k,64k",
            "io_size=50%",
            "rate_iops=300,600",
            "rate_iops=300,",
            "ioengine=libaio",
            "ioengine=io_uring:fixed",
            "size=1m",
            "size=50%",
            "direct=1",
            "buffered=1",
            "direct",
            "time_based",
            "pre_read=1",
            "invalidate=0",
            "norandommap",
            "stonewall",
            "wait_for_previous=0",
            "end_fsync=1",
            "rwmixwrite=30",
            "rwmixread=70",
            "filename=a\\:b",
            "directory=d",
            "ramp_time=3",
            "runtime=0",
            "[b]",
            "[c d]",
            "[global]",
        ])
        .prop_map(str::to_owned),
        (
            prop::sample::select(vec![
                "iodepth",
                "iodepth_batch",
                "iodepth_batch_complete_max",
                "numjobs",
                "fsync",
                "runtime",
                "thinktime",
                "io_size",
                "loops",
                "rate_iops",
            ]),
            number
        )
            .prop_map(|(key, number)| format!("{key}={number}")),
    ]
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 2000,
        rng_algorithm: RngAlgorithm::ChaCha,
        rng_seed: RngSeed::Fixed(30),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn prints_back(text: &str) -> Result<bool, TestCaseError> {
    let Ok(file) = JobFile::parse(text) else {
        return Ok(false);
    };
    let printed = file.to_string();
    prop_assert_eq!(JobFile::parse(&printed), Ok(file), "{:?} as\n{}", text, printed);
    Ok(true)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn job_files_of_any_lines(lines in prop::collection::vec(line(), 0..12)) {
        prints_back(&lines.join("\n"))?;
    }

    #[test]
    fn job_files_that_fit(lines in prop::collection::vec(fitting_line(), 0..16)) {
        let text = format!("[global]\nsize=2m\n[a]\n{}", lines.join("\n"));
        prop_assert!(prints_back(&text)?, "{}: {:?}", text, JobFile::parse(&text));
    }

    #[test]
    fn any_text(text in "\\PC*", raw in any::<Vec<u8>>()) {
        prints_back(&text)?;
        prints_back(&String::from_utf8_lossy(&raw))?;
    }

    #[test]
    fn sizes(text in "[0-9]{0,20}[a-zA-Z%é]{0,3}", count in any::<u64>()) {
        prop_assert_eq!(parse_bytes(&bytes(count)), Ok(count));
        if let Ok(size) = parse_bytes(&text) {
            prop_assert_eq!(parse_bytes(&bytes(size)), Ok(size));
        }
    }

    #[test]
    fn times(text in "[0-9]{0,20}(us|ms|s|m|h|usec|é|x)?") {
        if let Ok(time) = parse_seconds(&text) {
            prop_assert_eq!(parse_seconds(&format!("{}ms", time.as_millis())), Ok(time));
        }
        if let Ok(time) = parse_micros(&text) {
            prop_assert_eq!(parse_micros(&format!("{}us", time.as_micros())), Ok(time));
        }
    }

    #[test]
    fn engines_and_ways(text in "(sync|psync|libaio|io_uring|posixaio|[a-z]{0,5})(:[a-z+]{0,12}|:fixed\\+raw|:raw)?") {
        if let Ok(engine) = text.parse::<EngineSpec>() {
            prop_assert_eq!(engine.to_string().parse(), Ok(engine));
        }
        if let Ok(rw) = text.parse::<Rw>() {
            prop_assert_eq!(rw.to_string().parse(), Ok(rw));
        }
    }
}

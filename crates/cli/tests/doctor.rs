//! `proactor doctor` tells the truth: as it is here, with an engine named, and where io_uring is forbidden.

use serde_json::Value;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

const ENGINES: [&str; 4] = ["io_uring", "linux_aio", "posix_aio", "threads"];

fn doctor() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_proactor"));
    command.arg("doctor").env_remove("PROACTOR_ENGINE");
    command
}

fn json(command: &mut Command) -> (Value, Option<i32>) {
    let Output { status, stdout, .. } = command.arg("--json").output().unwrap();
    (
        serde_json::from_slice(&stdout).expect("one JSON object"),
        status.code(),
    )
}

fn engine<'a>(findings: &'a Value, name: &str) -> &'a Value {
    let engines = findings["engines"].as_array().unwrap();
    engines.iter().find(|engine| engine["name"] == name).unwrap()
}

/// The keys that docs/doctor.md promises, and what is behind them.
#[test]
fn json_keeps_its_promises() {
    let (findings, code) = json(&mut doctor());
    assert_eq!(code, Some(0));
    assert_eq!(findings["schema"], 1);
    assert_eq!(findings["version"], env!("CARGO_PKG_VERSION"));

    let machine = &findings["machine"];
    assert!(machine["kernel"].is_string() && machine["arch"].is_string());
    assert!(machine["cpus"].as_u64().unwrap() > 0);
    assert!(machine["container"].is_array());
    assert!(["none", "strict", "filter"].contains(&machine["seccomp"].as_str().unwrap()));
    for key in [
        "io_uring_disabled",
        "io_uring_group",
        "aio_max_events",
        "aio_used_events",
    ] {
        let value = machine.get(key).unwrap_or_else(|| panic!("no {key}"));
        assert!(value.is_null() || value.is_i64(), "{key}: {value}");
    }
    for key in ["memlock_bytes", "open_files", "processes"] {
        for which in ["soft", "hard"] {
            let value = machine["limits"][key]
                .get(which)
                .unwrap_or_else(|| panic!("no {key}"));
            assert!(value.is_null() || value.is_u64(), "{key} {which}: {value}");
        }
    }

    let choice = &findings["choice"];
    assert!(ENGINES.contains(&choice["engine"].as_str().unwrap()));
    assert!(!choice["reason"].as_str().unwrap().is_empty());
    assert!(choice["requested"].is_null());

    let names: Vec<&str> = findings["engines"]
        .as_array()
        .unwrap()
        .iter()
        .map(|engine| engine["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ENGINES);
    for name in ENGINES {
        let engine = engine(&findings, name);
        let usable = engine["usable"].as_bool().unwrap();
        assert_eq!(usable, engine["why_not"].is_null(), "{name}");
        assert!(engine["features"].is_array());
        let ops = engine["ops"].as_object().unwrap();
        assert_eq!(usable, !ops.is_empty(), "{name}");
        for (op, found) in ops {
            let how = found["how"].as_str().unwrap();
            let reasoned = found["reason"].is_string();
            match how {
                "native" | "reactor" => assert!(!reasoned, "{name} {op}"),
                "partly" | "threads" => assert!(reasoned, "{name} {op}: {how} without a reason"),
                _ => panic!("{name} {op}: {how}"),
            }
        }
    }
}

const SOCKETS: [&str; 5] = ["accept", "connect", "recv", "send", "datagrams"];

#[test]
fn sockets_are_told_of() {
    let (findings, _) = json(&mut doctor());
    for name in SOCKETS {
        let found = &findings["sockets"][name];
        let how = found["how"].as_str().unwrap();
        assert!(how == "ring" || found["reason"].is_string(), "{name}: {found}");
        assert!(["ring", "epoll"].contains(&how), "{name}: {found}");
    }
}

#[test]
fn kernel_workers_are_advised_on() {
    let (found, code) = json(doctor().arg("--workers"));
    assert_eq!(code, Some(0));
    assert_eq!(found["schema"], 1);
    assert!(found["cores"].as_u64().unwrap() > 0 && found["cpus"].is_string());
    let is_small = found["kernel_workers"] == 0;
    let warnings = found["warnings"].to_string();
    assert_eq!(warnings.contains("the application's core"), is_small, "{found}");
    if found["not_measured"].is_null() {
        for which in ["without", "with_one"] {
            assert!(found[which]["requests_per_s"].as_f64().unwrap() > 0.0, "{found}");
            assert!(
                found[which]["cpu_us_per_request"].as_f64().unwrap() > 0.0,
                "{found}"
            );
        }
    }
}

#[test]
fn text_has_every_engine_and_op_and_no_colour_in_a_pipe() {
    let output = doctor().output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.contains('\x1b'), "{text}");
    let (findings, _) = json(&mut doctor());
    for name in ENGINES {
        assert!(text.contains(name), "{name} is missing in:\n{text}");
    }
    for op in engine(&findings, "threads")["ops"].as_object().unwrap().keys() {
        assert!(
            text.lines()
                .any(|line| line.split_whitespace().next() == Some(op)),
            "no row for {op}"
        );
    }
}

#[test]
fn a_named_engine_is_the_one_that_is_chosen() {
    let (findings, code) = json(doctor().env("PROACTOR_ENGINE", "threads"));
    assert_eq!(code, Some(0));
    assert_eq!(findings["choice"]["engine"], "threads");
    assert_eq!(findings["choice"]["requested"], "threads");
}

#[test]
fn an_unknown_engine_is_an_error_that_names_the_variable() {
    let (findings, code) = json(doctor().env("PROACTOR_ENGINE", "kqueue"));
    assert_eq!(code, Some(1));
    assert!(findings["choice"]["engine"].is_null());
    let reason = findings["choice"]["reason"].as_str().unwrap();
    assert!(
        reason.contains("PROACTOR_ENGINE") && reason.contains("kqueue"),
        "{reason}"
    );
}

/// Makes `io_uring_setup` fail with `errno` in the child: a seccomp filter, as container runtimes install one.
fn without_io_uring(command: &mut Command, errno: i32) {
    const fn op(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
        let code = code as u16;
        libc::sock_filter { code, jt, jf, k }
    }
    let filter = move || {
        let mut program = [
            // The number of the system call: the first word of `seccomp_data`.
            op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
            op(
                libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
                0,
                1,
                libc::SYS_io_uring_setup as u32,
            ),
            op(
                libc::BPF_RET | libc::BPF_K,
                0,
                0,
                libc::SECCOMP_RET_ERRNO | errno as u32,
            ),
            op(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let program = libc::sock_fprog {
            len: program.len() as u16,
            filter: program.as_mut_ptr(),
        };
        // SAFETY: plain system calls; the kernel copies the program, which lives until they return.
        let failed = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
                || libc::prctl(
                    libc::PR_SET_SECCOMP,
                    libc::SECCOMP_MODE_FILTER,
                    &raw const program,
                ) != 0
        };
        if failed {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes two system calls and allocates nothing.
    unsafe { command.pre_exec(filter) };
}

/// Whether seccomp filters can be set here. The rule for skips: CONTRIBUTING.md.
fn seccomp_works() -> bool {
    // SAFETY: a null program is refused: EFAULT where there are filters, EINVAL where there are none.
    unsafe {
        libc::prctl(
            libc::PR_SET_SECCOMP,
            libc::SECCOMP_MODE_FILTER,
            std::ptr::null::<u8>(),
        )
    };
    let error = io::Error::last_os_error();
    if error.raw_os_error() == Some(libc::EFAULT) {
        return true;
    }
    let required = std::env::var("PROACTOR_REQUIRE").unwrap_or_default();
    assert!(
        !required.split(',').any(|name| name == "seccomp filter"),
        "{error}"
    );
    let _ = writeln!(io::stderr(), "SKIPPED doctor: seccomp filter: {error}");
    false
}

fn forbidden(errno: i32, why: &str) {
    if !seccomp_works() {
        return;
    }
    let mut command = doctor();
    without_io_uring(&mut command, errno);
    let (findings, code) = json(&mut command);
    assert_eq!(code, Some(0));
    assert_eq!(findings["machine"]["seccomp"], "filter");
    let uring = engine(&findings, "io_uring");
    assert_eq!(uring["usable"], false);
    assert!(uring["why_not"].as_str().unwrap().contains(why), "{uring}");
    // The doctor has done an op on each that it calls usable.
    assert_eq!(engine(&findings, "threads")["usable"], true);
    assert_eq!(findings["choice"]["engine"], "threads");
    let reason = findings["choice"]["reason"].as_str().unwrap();
    assert!(reason.contains("io_uring") && reason.contains(why), "{reason}");

    let mut command = doctor();
    without_io_uring(&mut command, errno);
    let text = String::from_utf8(command.output().unwrap().stdout).unwrap();
    assert!(text.contains(why), "{text}");

    // Asked for by name, it is not silently replaced.
    let mut command = doctor();
    without_io_uring(&mut command, errno);
    let (findings, code) = json(command.env("PROACTOR_ENGINE", "io_uring"));
    assert_eq!(code, Some(1));
    assert!(findings["choice"]["engine"].is_null());
    for name in SOCKETS {
        let found = &findings["sockets"][name];
        assert_eq!(found["how"], "epoll", "{name}");
        assert!(found["reason"].is_string(), "{name}");
    }
    let mut command = doctor();
    without_io_uring(&mut command, errno);
    let (found, code) = json(command.arg("--workers"));
    assert_eq!(code, Some(0));
    assert!(found["not_measured"].is_string(), "{found}");
}

#[test]
fn a_filter_that_says_enosys() {
    forbidden(libc::ENOSYS, "or a seccomp filter hides it");
}

#[test]
fn a_filter_that_says_eperm() {
    forbidden(libc::EPERM, "forbids io_uring");
}

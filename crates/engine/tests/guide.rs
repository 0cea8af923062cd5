//! The table of engines and ops in the guide says what the engines say.

use proactor::op::OpKind;
use proactor::{Driver, Engine};

const TABLE: &str = include_str!("../src/guide/engines_and_ops.md");

/// The cells of an op's row.
fn row(kind: OpKind) -> Vec<&'static str> {
    let name = format!("`{kind:?}`");
    let line = TABLE
        .lines()
        .find(|line| line.starts_with('|') && line.contains(&name));
    let line = line.unwrap_or_else(|| panic!("no row has {name}"));
    line.trim_matches('|').split('|').map(str::trim).collect()
}

#[test]
fn every_op_has_a_row_that_is_true() {
    let engines = [
        Engine::IoUring,
        Engine::LinuxAio,
        Engine::PosixAio,
        Engine::Threads,
    ];
    for (column, engine) in engines.into_iter().enumerate() {
        let Ok(driver) = Driver::builder().engine(engine).build() else {
            continue;
        };
        for &kind in OpKind::ALL {
            let cell = row(kind)[column + 1];
            let told = driver.support(kind);
            let by_threads = engine == Engine::Threads || told.name() == "threads";
            match cell {
                "threads" => assert!(by_threads, "{engine}: {kind:?} is {}", told.name()),
                "epoll" => assert_eq!(told.name(), "reactor", "{engine}: {kind:?}"),
                // An older kernel may lack what the ring does here.
                _ => assert!(
                    engine == Engine::IoUring || !by_threads,
                    "{engine}: {kind:?} is {}",
                    told.name()
                ),
            }
        }
    }
}

#[test]
fn what_may_go_to_another_thread() {
    fn both<T: Send + Sync>() {}
    both::<proactor::op::Op>();
    both::<proactor::Completion>();
    both::<proactor::op::File>();
    both::<proactor::op::Handle>();
    both::<proactor::op::FixedFile>();
    both::<proactor::buffer::Buf>();
    both::<proactor::buffer::RegisteredBuf>();
    both::<proactor::Token>();
    both::<proactor::Error>();
    both::<proactor::Config>();
    both::<proactor::ring::Waker>();
    both::<proactor::io::Remote>();
    both::<proactor::fs::File<proactor::io::Remote>>();
    both::<proactor::io::RemoteRun<proactor::op::Nop>>();
}

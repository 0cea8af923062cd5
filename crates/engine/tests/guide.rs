//! The table of engines and ops in the guide says what the engines say.

use proactor_engine::op::OpKind;
use proactor_engine::{Driver, Engine};

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
    both::<proactor_engine::op::Op>();
    both::<proactor_engine::Completion>();
    both::<proactor_engine::op::File>();
    both::<proactor_engine::op::Handle>();
    both::<proactor_engine::op::FixedFile>();
    both::<proactor_engine::buffer::Buf>();
    both::<proactor_engine::buffer::RegisteredBuf>();
    both::<proactor_engine::Token>();
    both::<proactor_engine::Error>();
    both::<proactor_engine::Config>();
    both::<proactor_engine::ring::Waker>();
    both::<proactor_engine::io::Remote>();
    both::<proactor_engine::fs::File<proactor_engine::io::Remote>>();
    both::<proactor_engine::io::RemoteRun<proactor_engine::op::Nop>>();
}

//! The suite itself: no op without a conformance test.

use crate::testkit::{drop_capabilities, Case};
use proactor_engine::op::OpKind;

conformance! {
    once { every_op_says_how_it_is_done }
    isolated { what_works_is_what_a_program_gets }
}

#[test]
fn every_op_has_a_conformance_test() {
    let covered = [
        crate::read_write::COVERS,
        crate::paths::COVERS,
        crate::xattrs::COVERS,
        crate::file_ops::COVERS,
        crate::streams::COVERS,
        crate::poll::COVERS,
        crate::whole_file::COVERS,
        crate::blocking::COVERS,
    ]
    .concat();
    let missing: Vec<_> = OpKind::ALL
        .iter()
        .filter(|kind| !covered.contains(kind))
        .collect();
    assert!(missing.is_empty(), "no conformance test covers {missing:?}");
}

fn every_op_says_how_it_is_done(t: &Case) {
    let d = t.driver();
    assert_eq!(d.chosen().engine, t.engine);
    for &kind in OpKind::ALL {
        let support = d.support(kind);
        let reason = support.reason().unwrap_or_default();
        assert!(
            support.name() != "threads" || !reason.is_empty(),
            "{}: no reason",
            kind.name()
        );
    }
}

/// A small ring fits where the usual one does not.
fn what_works_is_what_a_program_gets(t: &Case) {
    drop_capabilities();
    let limit = libc::rlimit {
        rlim_cur: 8 << 10,
        rlim_max: 8 << 10,
    };
    // SAFETY: a live struct; the process is this test's own.
    let ret = unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const limit) };
    assert_eq!(ret, 0);
    let report = proactor_engine::probe::report(t.engine);
    assert_eq!(report.usable.is_ok(), t.config().build().is_ok());
    assert_eq!(report.usable.is_ok(), !report.support.is_empty());
}

//! The suite itself: no op without a conformance test.

use crate::testkit::Case;
use proactor::op::OpKind;

conformance! { once { every_op_says_how_it_is_done } }

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

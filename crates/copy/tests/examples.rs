//! The example copies, and says how far it is.

#[path = "../../engine/tests/built/mod.rs"]
mod built;

use std::fs;
use std::process::Command;

#[test]
fn tree_with_progress() {
    let example = built::example("tree_with_progress");
    let here = tempfile::tempdir().unwrap();
    let (source, target) = (here.path().join("a"), here.path().join("b"));
    fs::create_dir(&source).unwrap();
    for number in 0..10 {
        fs::write(source.join(number.to_string()), "contents").unwrap();
    }
    let copy = || Command::new(&example).args([&source, &target]).output().unwrap();
    let output = copy();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(output.stdout, b"10 files, 80 bytes\n");
    assert!(output.stderr.ends_with(b"\r100 %"), "{output:?}");
    for number in 0..10 {
        assert_eq!(fs::read(target.join(number.to_string())).unwrap(), b"contents");
    }

    fs::remove_dir_all(&source).unwrap();
    let output = copy();
    assert!(!output.status.success(), "{output:?}");
    assert!(String::from_utf8(output.stderr)
        .unwrap()
        .contains("No such file or directory"));
}

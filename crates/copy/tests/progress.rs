//! How much of the whole is done.

mod support;

use proactor_copy::{copy, Action, Diagnostic, Observer, Options, Rule, Target};
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use support::{place, recursive};

#[derive(Default)]
struct Measure(Mutex<Vec<f64>>);

impl Observer for Measure {
    fn advanced(&self, part: f64) {
        self.0.lock().unwrap().push(part);
    }

    fn measures(&self) -> bool {
        true
    }

    fn diagnostic(&self, _: &Diagnostic) {}
}

fn parts(options: &Options, sources: &[&Path], target: &Path) -> Vec<f64> {
    let measure = Measure::default();
    let sources: Vec<_> = sources.iter().map(|source| source.into()).collect();
    copy(options, &sources, &Target::Into(target.into()), &measure);
    let parts = measure.0.into_inner().unwrap();
    let sum: f64 = parts.iter().sum();
    assert!((sum - 1.0).abs() < 1e-9, "{sum}: {parts:?}");
    parts
}

#[test]
fn parts_add_up_to_the_whole() {
    let (here, source, target) = place();
    fs::create_dir(&target).unwrap();
    fs::create_dir_all(source.join("empty")).unwrap();
    fs::create_dir_all(source.join("full/deep/deeper")).unwrap();
    for number in 0..200 {
        fs::write(source.join(format!("full/{number}")), "").unwrap();
    }
    fs::write(source.join("full/deep/file"), "").unwrap();
    let file = here.path().join("file");
    fs::write(&file, "contents").unwrap();
    let nowhere = here.path().join("nowhere");

    // A half each; then a half of it each, for there are two entries.
    let both = parts(&recursive(), &[&source, &file], &target);
    assert!(both.contains(&0.5) && both.contains(&0.25), "{both:?}");
    assert_eq!(parts(&recursive(), &[&file], &target), [1.0]);
    assert_eq!(parts(&recursive(), &[&source.join("empty")], &target), [1.0]);
    // What fails or is left out is done, too.
    parts(&Options::default(), &[&source, &file], &target);
    let options = Options {
        filter: vec![Rule::new(Action::Exclude, "deep").unwrap()],
        ..recursive()
    };
    parts(&options, &[&source], &target);
    let dry = Options {
        dry_run: true,
        jobs: 4,
        ..recursive()
    };
    parts(&dry, &[&source], &target);
    // It is not found: nobody knows when that was, and nothing more is told.
    let measure = Measure::default();
    copy(&recursive(), &[nowhere], &Target::Into(target), &measure);
    assert!(measure.0.into_inner().unwrap().len() <= 1);
}

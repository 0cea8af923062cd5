//! What the flags of `proactor cp` ask for together.

use super::lists;
use super::usage::Misuse;
use super::words::{choose, Attribute, BackupControl};
use crate::progress;
use clap::ValueEnum as _;
use proactor_copy::{
    is_selinux, Action, Backup, Dereference, Method, Mode, Options, Preserve, Reflink, Rule, Sparse, When,
    Wish,
};
use std::ffi::{OsStr, OsString};

/// Combined meaning of the flags.
#[derive(Default)]
pub(super) struct Settings {
    pub options: Options,
    /// Sources and target, as they were given.
    pub operands: Vec<OsString>,
    pub files_from: Vec<OsString>,
    /// Patterns, and files of them, in their order.
    pub patterns: Vec<Patterns>,
    pub strip_trailing_slashes: bool,
    pub target_directory: Option<OsString>,
    pub no_target_directory: bool,
    pub dereference: Option<Dereference>,
    pub link: bool,
    pub symbolic_link: bool,
    pub no_clobber: bool,
    /// True for -Z.
    pub default_context: bool,
    /// Backup control that was named last, by -b, --backup or -S. Empty: by the environment.
    pub backup: Option<OsString>,
    pub suffix: Option<OsString>,
    /// File for the plan.
    pub plan: Option<OsString>,
    /// Number of shards to make.
    pub shards: Option<usize>,
    pub shard: Option<usize>,
    pub finish: bool,
    /// Address of the cluster.
    pub ray: Option<String>,
    pub verbose: bool,
    pub debug: bool,
    pub json: bool,
    pub stats: bool,
    pub progress: progress::When,
    /// Warnings of requests that cannot be met here.
    pub warnings: Vec<&'static str>,
}

/// Patterns of one flag.
pub(super) enum Patterns {
    One(Rule),
    /// Those in a file are read when all flags are known.
    In(OsString),
}

impl Settings {
    pub fn preserve(&mut self, list: &OsStr) -> Result<(), Misuse> {
        set_attributes(&mut self.options.preserve, list, true)
    }

    pub fn no_preserve(&mut self, list: &OsStr) -> Result<(), Misuse> {
        set_attributes(&mut self.options.preserve, list, false)
    }

    pub fn pattern(&mut self, action: Action, pattern: &OsStr) -> Result<(), Misuse> {
        self.patterns.push(Patterns::One(lists::rule(action, pattern)?));
        Ok(())
    }

    /// True if the copy is made in parts.
    pub fn is_sharded(&self) -> bool {
        let numbers = self.shard.is_some() || self.shards.is_some();
        self.plan.is_some() || self.finish || self.ray.is_some() || numbers
    }

    /// Decides what depends on several flags, after all of them.
    pub fn settle(&mut self) -> Result<(), Misuse> {
        self.read_patterns()?;
        self.check_combinations()?;
        self.settle_context()?;
        let options = &mut self.options;
        options.through_dangling_link = std::env::var_os("POSIXLY_CORRECT").is_some();
        if self.no_clobber {
            options.overwrite.when = When::None;
        }
        options.method = match (self.link, self.symbolic_link) {
            (true, _) => Method::HardLink,
            (_, true) => Method::SymbolicLink,
            _ => Method::Contents,
        };
        options.dereference = self.dereference.unwrap_or(match options.recursive && !self.link {
            true => Dereference::Never,
            false => Dereference::Always,
        });
        self.warn_of_no_effect();
        self.settle_backup()
    }

    fn read_patterns(&mut self) -> Result<(), Misuse> {
        let in_files = self.patterns.iter().filter_map(|patterns| match patterns {
            Patterns::One(_) => None,
            Patterns::In(file) => Some(file),
        });
        // Before any list is read.
        lists::check(self.files_from.iter().chain(in_files))?;
        for patterns in std::mem::take(&mut self.patterns) {
            match patterns {
                Patterns::One(rule) => self.options.filter.push(rule),
                Patterns::In(file) => self.options.filter.extend(lists::exclusions(&file)?),
            }
        }
        Ok(())
    }

    fn check_combinations(&self) -> Result<(), Misuse> {
        if self.link && self.symbolic_link {
            return Err(Misuse::with_hint("cannot make both hard and symbolic links"));
        }
        let options = &self.options;
        let leaves_all = matches!(options.overwrite.when, When::None | When::NoneFail);
        if self.backup.is_some() && (self.no_clobber || leaves_all) {
            return Err(Misuse::with_hint(match self.no_clobber {
                true => "options --backup and --no-clobber are mutually exclusive",
                false => "--backup is mutually exclusive with -n or --update=none-fail",
            }));
        }
        if options.reflink == Reflink::Always && options.sparse != Sparse::Auto {
            return Err(Misuse::with_hint("--reflink can be used only with --sparse=auto"));
        }
        Ok(())
    }

    fn settle_context(&mut self) -> Result<(), Misuse> {
        let options = &mut self.options;
        if options.preserve.context == Wish::Must && !is_selinux() {
            return Err(Misuse::plain(
                "cannot preserve security context without an SELinux-enabled kernel",
            ));
        }
        let sets_context = is_selinux() && self.default_context || options.context.is_some();
        if sets_context && options.preserve.context == Wish::Must {
            return Err(Misuse::with_hint(
                "cannot combine --context (-Z) with --preserve=context",
            ));
        }
        if sets_context {
            options.preserve.context = Wish::No;
        }
        Ok(())
    }

    /// Warns of our options that have no effect beside others. GNU's own are ignored without a warning, as by
    /// its cp.
    fn warn_of_no_effect(&mut self) {
        let options = &self.options;
        let copies = options.method == Method::Contents && !options.attributes_only;
        let overwrite = options.overwrite;
        let of_contents = [
            (
                options.verify,
                "--verify has no effect with -l, -s or --attributes-only",
            ),
            (
                options.bwlimit > 0,
                "--bwlimit has no effect with -l, -s or --attributes-only",
            ),
            (
                options.resume,
                "--resume has no effect with -l, -s or --attributes-only",
            ),
            (
                options.in_place,
                "--in-place has no effect with -l, -s or --attributes-only",
            ),
        ];
        let of_others = [
            (options.jobs > 1 && overwrite.ask, "--jobs has no effect with -i"),
            (
                options.bwlimit > 0 && options.reflink == Reflink::Always && copies,
                "--bwlimit has no effect with --reflink=always, which writes no bytes",
            ),
            (
                options.in_place && overwrite.remove,
                "--in-place has no effect on files that exist with --remove-destination, which replaces them",
            ),
            (
                options.in_place && self.backup.is_some(),
                "--in-place has no effect on files that exist with --backup, which moves them out of the way",
            ),
            (
                options.keep_directory_symlink && !options.recursive && !options.parents,
                "--keep-directory-symlink has no effect without -r",
            ),
        ];
        let of_output = [
            (
                matches!(options.filter.last(), Some(rule) if rule.action() == Action::Include),
                "--include has no effect where no --exclude comes after it: the first pattern that matches decides",
            ),
            (
                self.json && self.stats,
                "--stats has no effect with --json, whose report says the same",
            ),
            (self.json && self.debug, "--debug has no effect with --json"),
            (
                self.plan.is_some() && (self.verbose || self.debug || self.stats),
                "-v, --debug and --stats have no effect with --plan, which copies nothing",
            ),
        ];
        let of_contents = of_contents
            .into_iter()
            .map(|(given, text)| (given && !copies, text));
        let in_vain = of_contents
            .chain(of_others)
            .chain(of_output)
            .filter(|(is_so, _)| *is_so);
        self.warnings.extend(in_vain.map(|(_, text)| text));
    }

    fn settle_backup(&mut self) -> Result<(), Misuse> {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let Some(control) = &self.backup else {
            return Ok(());
        };
        let suffix = self.suffix.take().or_else(|| variable("SIMPLE_BACKUP_SUFFIX"));
        if let Some(suffix) = suffix.filter(|suffix| is_name(suffix)) {
            self.options.suffix = suffix;
        }
        self.options.backup = if control.is_empty() {
            match variable("VERSION_CONTROL") {
                Some(control) => choose::<BackupControl>("$VERSION_CONTROL", &control)?.into(),
                None => Backup::Existing,
            }
        } else {
            choose::<BackupControl>("backup type", control)?.into()
        };
        Ok(())
    }
}

/// Returns true if a suffix makes a name of a name; others are ignored, as by GNU cp.
fn is_name(suffix: &OsStr) -> bool {
    !suffix.is_empty() && !suffix.as_encoded_bytes().contains(&b'/')
}

fn set_attributes(preserve: &mut Preserve, list: &OsStr, wanted: bool) -> Result<(), Misuse> {
    let of = if wanted { "--preserve" } else { "--no-preserve" };
    let list = list.to_string_lossy();
    for word in list.split(',') {
        let one = |preserve: &mut Preserve, attribute| set_attribute(preserve, attribute, wanted);
        match choose(of, word.as_ref())? {
            Attribute::All if wanted => {
                let flags = preserve.flags;
                *preserve = Preserve {
                    flags,
                    ..Preserve::all()
                };
            }
            Attribute::All => {
                let all = Attribute::value_variants().iter();
                all.filter(|attribute| **attribute != Attribute::All)
                    .for_each(|attribute| one(preserve, *attribute));
            }
            attribute => one(preserve, attribute),
        }
    }
    Ok(())
}

fn set_attribute(preserve: &mut Preserve, attribute: Attribute, wanted: bool) {
    match attribute {
        Attribute::Mode => preserve.mode = if wanted { Mode::Preserve } else { Mode::Fresh },
        Attribute::Timestamps => preserve.timestamps = wanted,
        Attribute::Ownership => preserve.ownership = wanted,
        Attribute::Links => preserve.links = wanted,
        Attribute::Context => preserve.context = if wanted { Wish::Must } else { Wish::No },
        Attribute::Xattr => preserve.xattr = if wanted { Wish::Must } else { Wish::No },
        Attribute::Flags => preserve.flags = wanted,
        Attribute::All => unreachable!("the caller takes it apart"),
    }
}

//! From flags, in the order in which they were given, to the options of the copier.

use super::abbreviations;
use super::flags::Flags;
use super::lists;
use super::units;
use super::usage::Misuse;
use super::values::{choose, Table};
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use proactor_copy::{
    is_selinux, Action, Backup, Dereference, Engine, Fsync, Method, Mode, Options, Preserve, Reflink, Sparse,
    When, Wish,
};
use std::ffi::{OsStr, OsString};

/// The command line of `proactor cp`.
pub(crate) struct Cp {
    pub(super) flags: Flags,
    /// Each flag with its value, or an empty one, in order.
    given: Vec<(String, OsString)>,
}

impl FromArgMatches for Cp {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut given = Vec::new();
        let from_user = |id: &&clap::Id| matches.value_source(id.as_str()) == Some(ValueSource::CommandLine);
        for id in matches
            .ids()
            .filter(from_user)
            .map(clap::Id::as_str)
            .filter(|id| *id != "Flags")
        {
            let values = matches.get_raw(id).into_iter().flatten();
            for (at, value) in matches.indices_of(id).into_iter().flatten().zip(values) {
                given.push((at, id.to_string(), value.to_os_string()));
            }
        }
        given.sort_by_key(|(at, ..)| *at);
        Ok(Cp {
            flags: Flags::from_arg_matches(matches)?,
            given: given.into_iter().map(|(_, id, value)| (id, value)).collect(),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Cp::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for Cp {
    fn augment_args(command: Command) -> Command {
        abbreviations::of_gnu(Flags::augment_args(command))
    }

    fn augment_args_for_update(command: Command) -> Command {
        abbreviations::of_gnu(Flags::augment_args_for_update(command))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Occasion {
    Auto,
    Always,
    Never,
}

#[derive(Clone, Copy, PartialEq)]
enum Attribute {
    Mode,
    Timestamps,
    Ownership,
    Links,
    Context,
    Xattr,
    Flags,
    All,
}

const ATTRIBUTES: Table<Attribute> = &[
    (Attribute::Mode, &["mode"]),
    (Attribute::Timestamps, &["timestamps"]),
    (Attribute::Ownership, &["ownership"]),
    (Attribute::Links, &["links"]),
    (Attribute::Context, &["context"]),
    (Attribute::Xattr, &["xattr"]),
    (Attribute::Flags, &["flags"]),
    (Attribute::All, &["all"]),
];
const UPDATE: Table<When> = &[
    (When::All, &["all"]),
    (When::None, &["none"]),
    (When::NoneFail, &["none-fail"]),
    (When::Older, &["older"]),
];
const BACKUP: Table<Backup> = &[
    (Backup::None, &["none", "off"]),
    (Backup::Simple, &["simple", "never"]),
    (Backup::Existing, &["existing", "nil"]),
    (Backup::Numbered, &["numbered", "t"]),
];
const SPARSE: Table<Sparse> = &[
    (Sparse::Never, &["never"]),
    (Sparse::Auto, &["auto"]),
    (Sparse::Always, &["always"]),
];
const REFLINK: Table<Reflink> = &[
    (Reflink::Auto, &["auto"]),
    (Reflink::Always, &["always"]),
    (Reflink::Never, &["never"]),
];
const FSYNC: Table<Fsync> = &[
    (Fsync::None, &["none"]),
    (Fsync::End, &["end"]),
    (Fsync::Each, &["each"]),
];
const ENGINE: Table<Engine> = &[
    (Engine::Auto, &["auto"]),
    (Engine::Threads, &["threads"]),
    (Engine::Uring, &["uring", "io_uring"]),
];
const PROGRESS: Table<Occasion> = &[
    (Occasion::Auto, &["auto"]),
    (Occasion::Always, &["always"]),
    (Occasion::Never, &["never"]),
];

/// Combined meaning of the flags.
pub(super) struct Wishes {
    pub options: Options,
    pub progress: Occasion,
    pub target_directory: Option<OsString>,
    /// Number of shards to make.
    pub shards: Option<usize>,
    pub shard: Option<usize>,
    dereference: Option<Dereference>,
    no_clobber: bool,
    /// Warnings of requests that cannot be met here.
    pub warnings: Vec<&'static str>,
    /// True for -Z.
    default_context: bool,
    /// Backup control that was named last, by -b, --backup or -S.
    backup: Option<OsString>,
    suffix: Option<OsString>,
}

impl Cp {
    /// Combines the flags: later ones override earlier ones about the same subject.
    pub(super) fn wishes(&self) -> Result<Wishes, Misuse> {
        // Before any list is read.
        lists::check(&self.flags)?;
        let mut wishes = Wishes {
            options: Options::default(),
            progress: Occasion::Auto,
            target_directory: None,
            shards: None,
            shard: None,
            dereference: None,
            no_clobber: false,
            warnings: Vec::new(),
            default_context: false,
            backup: None,
            suffix: None,
        };
        for (flag, value) in &self.given {
            wishes.apply(flag, value)?;
        }
        wishes.settle(&self.flags)?;
        Ok(wishes)
    }
}

impl Wishes {
    fn apply(&mut self, flag: &str, value: &OsStr) -> Result<(), Misuse> {
        let options = &mut self.options;
        match flag {
            "recursive" => options.recursive = true,
            "archive" => {
                options.recursive = true;
                set_attributes(&mut options.preserve, "all".as_ref(), true)?;
                self.dereference = Some(Dereference::Never);
            }
            "links_as_links" => {
                options.preserve.links = true;
                self.dereference = Some(Dereference::Never);
            }
            "no_dereference" => self.dereference = Some(Dereference::Never),
            "dereference" => self.dereference = Some(Dereference::Always),
            "dereference_named" => self.dereference = Some(Dereference::CommandLine),
            "exclude" => options.filter.push(lists::rule(Action::Exclude, value)?),
            "include" => options.filter.push(lists::rule(Action::Include, value)?),
            "exclude_from" => options.filter.extend(lists::exclusions(value)?),
            "preserve_usual" => {
                set_attributes(&mut options.preserve, "mode,ownership,timestamps".as_ref(), true)?
            }
            "preserve" => set_attributes(&mut options.preserve, value, true)?,
            "default_context" => self.default_context = true,
            "context" if value.is_empty() => self.default_context = true,
            "context" if is_selinux() => options.context = Some(value.to_os_string()),
            "context" => self
                .warnings
                .push("ignoring --context; it requires an SELinux-enabled kernel"),
            "no_preserve" => set_attributes(&mut options.preserve, value, false)?,
            "interactive" => (options.overwrite.ask, self.no_clobber) = (true, false),
            "no_clobber" => (options.overwrite.ask, self.no_clobber) = (false, true),
            "update" => options.overwrite.when = choose("--update", value, UPDATE)?,
            "backup_usual" => self.backup = Some(self.backup.take().unwrap_or_default()),
            "backup" if value.is_empty() => self.backup = Some(self.backup.take().unwrap_or_default()),
            "backup" => self.backup = Some(value.to_os_string()),
            "suffix" => {
                self.backup = Some(self.backup.take().unwrap_or_default());
                self.suffix = Some(value.to_os_string());
            }
            "target_directory" if self.target_directory.is_some() => {
                return Err(Misuse::plain("multiple target directories specified"));
            }
            "target_directory" => self.target_directory = Some(value.to_os_string()),
            "sparse" => options.sparse = choose("--sparse", value, SPARSE)?,
            "reflink" => options.reflink = choose("--reflink", value, REFLINK)?,
            "fsync" => options.fsync = choose("--fsync", value, FSYNC)?,
            "progress" => self.progress = choose("--progress", value, PROGRESS)?,
            "bwlimit" => options.bwlimit = bytes("--bwlimit", value)?,
            "engine" => options.engine = choose("--engine", value, ENGINE)?,
            "jobs" => options.jobs = number("--jobs", value)?,
            "shards" => self.shards = Some(number("--shards", value)?),
            "shard" => self.shard = Some(index("--shard", value)?),
            // The others have no order: `settle` reads them.
            _ => {}
        }
        Ok(())
    }

    fn settle(&mut self, flags: &Flags) -> Result<(), Misuse> {
        if flags.link && flags.symbolic_link {
            return Err(Misuse::with_hint("cannot make both hard and symbolic links"));
        }
        let options = &mut self.options;
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
        options.one_file_system = flags.one_file_system;
        options.attributes_only = flags.attributes_only;
        options.copy_contents = flags.copy_contents;
        options.parents = flags.parents;
        options.keep_directory_symlink = flags.keep_directory_symlink;
        options.through_dangling_link = std::env::var_os("POSIXLY_CORRECT").is_some();
        options.in_place = flags.in_place;
        options.resume = flags.resume;
        options.verify = flags.verify;
        options.dry_run = flags.dry_run;
        options.overwrite.force = flags.force;
        options.overwrite.remove = flags.remove_destination;
        if self.no_clobber {
            options.overwrite.when = When::None;
        }
        options.method = match (flags.link, flags.symbolic_link) {
            (true, _) => Method::HardLink,
            (_, true) => Method::SymbolicLink,
            _ => Method::Contents,
        };
        options.dereference = self.dereference.unwrap_or(if options.recursive && !flags.link {
            Dereference::Never
        } else {
            Dereference::Always
        });
        self.warn_of_no_effect(flags);
        self.settle_backup()
    }

    /// Warns of our options that have no effect beside others. GNU's own are ignored without a warning, as by
    /// its cp.
    fn warn_of_no_effect(&mut self, flags: &Flags) {
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
                flags.json && flags.stats,
                "--stats has no effect with --json, whose report says the same",
            ),
            (flags.json && flags.debug, "--debug has no effect with --json"),
            (
                !flags.plan.is_empty() && (flags.verbose || flags.debug || flags.stats),
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
                Some(control) => choose("$VERSION_CONTROL", &control, BACKUP)?,
                None => Backup::Existing,
            }
        } else {
            choose("backup type", control, BACKUP)?
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
        match choose(of, word.as_ref(), ATTRIBUTES)? {
            Attribute::All if wanted => {
                let flags = preserve.flags;
                *preserve = Preserve {
                    flags,
                    ..Preserve::all()
                };
            }
            Attribute::All => {
                let all = ATTRIBUTES.iter().map(|(attribute, _)| *attribute);
                all.filter(|attribute| *attribute != Attribute::All)
                    .for_each(|attribute| one(preserve, attribute));
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

fn number(of: &str, word: &OsStr) -> Result<usize, Misuse> {
    number_from(1, of, word)
}

fn index(of: &str, word: &OsStr) -> Result<usize, Misuse> {
    number_from(0, of, word)
}

fn number_from(least: usize, of: &str, word: &OsStr) -> Result<usize, Misuse> {
    let parsed = word.to_str().and_then(|word| word.parse().ok());
    let number = parsed.filter(|number| *number >= least);
    number.ok_or_else(|| meant(of, word, &format!("an integer of at least {least}")))
}

fn bytes(of: &str, word: &OsStr) -> Result<u64, Misuse> {
    let parsed = word.to_str().and_then(units::bytes_in);
    parsed.ok_or_else(|| meant(of, word, "a number of bytes, such as 500000, 1.5M or 20MB"))
}

fn meant(of: &str, word: &OsStr, what: &str) -> Misuse {
    let (word, of) = (proactor_copy::quote::mark(word), proactor_copy::quote::mark(of));
    Misuse::with_hint(format!("invalid argument {word} for {of}: expected {what}"))
}

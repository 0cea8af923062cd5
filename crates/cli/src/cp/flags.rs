//! The flags of `proactor cp`: name, value, help text and effect of each in one place.
//!
//! Effects are applied in the order in which the flags were given, as GNU's cp applies them. A flag without an
//! effect does not compile. Neither does one whose effect sets what nothing reads.

use super::settings::{Patterns, Settings};
use super::usage::Misuse;
use super::words::{
    at_least, bytes, choose, BackupControl, DataSync, Overwriting, ShareBlocks, SmallFileEngine, SparseWhen,
    Words,
};
use crate::progress::When;
use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, Args, Command, FromArgMatches};
use proactor_copy::{is_selinux, Action, Dereference};
use std::ffi::{OsStr, OsString};

const COPIED: &str = "What is copied";
const PRESERVED: &str = "What is preserved";
const DESTINATION: &str = "Destination";
const EXISTING: &str = "Existing files";
const HOW: &str = "How it is copied";
const MACHINES: &str = "On many machines";
const OUTPUT: &str = "Output";

/// Attributes of `-p`, and of `--preserve` without a value.
const USUAL: &str = "mode,ownership,timestamps";

type Effect = fn(&mut Settings, &OsStr) -> Result<(), Misuse>;

/// Result of an effect: most cannot fail.
trait Outcome {
    fn outcome(self) -> Result<(), Misuse>;
}

impl Outcome for () {
    fn outcome(self) -> Result<(), Misuse> {
        Ok(())
    }
}

impl Outcome for Result<(), Misuse> {
    fn outcome(self) -> Result<(), Misuse> {
        self
    }
}

/// Declares the flags for clap, and the effect of each on the settings.
macro_rules! flags {
    ($($(#[$attribute:meta])* $name:ident: $type:ty => ($settings:pat_param, $value:pat_param) $effect:expr;)*) => {
        /// What clap parses. The effects get the values from clap's matches, which have their order.
        #[derive(Args)]
        #[command(
            args_override_self = true,
            disable_help_flag = true,
            disable_version_flag = true,
            infer_long_args = true
        )]
        #[allow(dead_code)]
        struct Flags {
            $($(#[$attribute])* $name: $type,)*
            /// Print a summary (-h), or all details
            #[arg(short = 'h', long, action = ArgAction::Help, help_heading = OUTPUT)]
            help: Option<bool>,
            /// Print version
            #[arg(long, action = ArgAction::Version, help_heading = OUTPUT)]
            version: Option<bool>,
        }

        const EFFECTS: &[(&str, Effect)] = &[$((stringify!($name), {
            fn effect($settings: &mut Settings, $value: &OsStr) -> Result<(), Misuse> {
                Outcome::outcome($effect)
            }
            effect
        }),)*];
    };
}

flags! {
    /// Files and directories to copy, and the target: a new name, or a directory
    #[arg(value_name = "SOURCE... TARGET")]
    operands: Vec<OsString> => (settings, value) settings.operands.push(value.into());

    /// Copy directories with everything below them
    #[arg(short, visible_short_alias = 'R', long, help_heading = COPIED)]
    recursive: bool => (settings, _) settings.options.recursive = true;

    /// The same as -dR --preserve=all
    #[arg(short, long, help_heading = COPIED)]
    archive: bool => (settings, _) {
        settings.options.recursive = true;
        settings.dereference = Some(Dereference::Never);
        settings.preserve("all".as_ref())
    };

    /// The same as --no-dereference --preserve=links
    #[arg(short = 'd', help_heading = COPIED)]
    links_as_links: bool => (settings, _) {
        settings.options.preserve.links = true;
        settings.dereference = Some(Dereference::Never);
    };

    /// Copy symbolic links as links: the default with -r
    #[arg(short = 'P', long, help_heading = COPIED)]
    no_dereference: bool => (settings, _) settings.dereference = Some(Dereference::Never);

    /// Follow all symbolic links in the sources: the default without -r
    #[arg(short = 'L', long, help_heading = COPIED)]
    dereference: bool => (settings, _) settings.dereference = Some(Dereference::Always);

    /// Follow only symbolic links that are named as sources
    #[arg(short = 'H', help_heading = COPIED)]
    dereference_named: bool => (settings, _) settings.dereference = Some(Dereference::CommandLine);

    /// Skip other file systems than the named source's
    #[arg(short = 'x', long, help_heading = COPIED)]
    one_file_system: bool => (settings, _) settings.options.one_file_system = true;

    /// Copy metadata only: no contents
    ///
    /// New files stay empty, and existing files keep their contents.
    #[arg(long, help_heading = COPIED)]
    attributes_only: bool => (settings, _) settings.options.attributes_only = true;

    /// With -r, read FIFOs and devices as if they were files
    #[arg(long, help_heading = COPIED)]
    copy_contents: bool => (settings, _) settings.options.copy_contents = true;

    /// Also copy what FILE lists ("-": stdin); can be repeated
    ///
    /// One path a line, or separated by zeros as `find -print0` writes them.
    #[arg(long, value_name = "FILE", action = ArgAction::Append, allow_hyphen_values = true, help_heading = COPIED)]
    files_from: Vec<OsString> => (settings, file) settings.files_from.push(file.into());

    /// Skip what matches this pattern, and everything below it
    ///
    /// Of all patterns of --exclude, --include and --exclude-from, the first match decides.
    #[arg(long, value_name = "PATTERN", action = ArgAction::Append, allow_hyphen_values = true, help_heading = COPIED)]
    exclude: Vec<OsString> => (settings, pattern) settings.pattern(Action::Exclude, pattern);

    /// Copy what matches this pattern, whatever later patterns say
    #[arg(long, value_name = "PATTERN", action = ArgAction::Append, allow_hyphen_values = true, help_heading = COPIED)]
    include: Vec<OsString> => (settings, pattern) settings.pattern(Action::Include, pattern);

    /// The same as --exclude for each line of FILE ("-": stdin)
    ///
    /// Empty lines and lines that begin with # are skipped.
    #[arg(long, value_name = "FILE", action = ArgAction::Append, allow_hyphen_values = true, help_heading = COPIED)]
    exclude_from: Vec<OsString> => (settings, file) settings.patterns.push(Patterns::In(file.into()));

    /// Remove trailing slashes from each source
    #[arg(long, help_heading = COPIED)]
    strip_trailing_slashes: bool => (settings, _) settings.strip_trailing_slashes = true;

    /// The same as --preserve=mode,ownership,timestamps
    #[arg(short = 'p', help_heading = PRESERVED)]
    preserve_usual: bool => (settings, _) settings.preserve(USUAL.as_ref());

    /// Preserve these; without a value mode,ownership,timestamps
    ///
    /// A list of mode, ownership, timestamps, links, context, xattr, all (of these), flags.
    #[arg(long, value_name = "LIST", action = ArgAction::Append, num_args = 0..=1, require_equals = true,
          default_missing_value = USUAL, help_heading = PRESERVED)]
    preserve: Vec<OsString> => (settings, list) settings.preserve(list);

    /// Let SELinux give each copy its default context
    ///
    /// That happens anyway unless the context is preserved.
    #[arg(short = 'Z', help_heading = PRESERVED)]
    default_context: bool => (settings, _) settings.default_context = true;

    /// The same as -Z, or give each copy the context CTX
    #[arg(long, value_name = "CTX", action = ArgAction::Append, num_args = 0..=1, require_equals = true,
          default_missing_value = "", help_heading = PRESERVED)]
    context: Vec<OsString> => (settings, context) match context {
        context if context.is_empty() => settings.default_context = true,
        context if is_selinux() => settings.options.context = Some(context.into()),
        _ => settings.warnings.push("ignoring --context; it requires an SELinux-enabled kernel"),
    };

    /// Do not preserve these
    #[arg(long, value_name = "LIST", action = ArgAction::Append, help_heading = PRESERVED)]
    no_preserve: Vec<OsString> => (settings, list) settings.no_preserve(list);

    /// Copy into this directory
    #[arg(short, long, value_name = "DIRECTORY", action = ArgAction::Append, allow_hyphen_values = true,
          help_heading = DESTINATION)]
    target_directory: Vec<OsString> => (settings, directory) match settings.target_directory {
        Some(_) => Err(Misuse::plain("multiple target directories specified")),
        None => {
            settings.target_directory = Some(directory.into());
            Ok(())
        }
    };

    /// Treat the target as the new name itself, even if it is a directory
    #[arg(short = 'T', long, help_heading = DESTINATION)]
    no_target_directory: bool => (settings, _) settings.no_target_directory = true;

    /// Append the full path of each source to the target directory
    #[arg(long, help_heading = DESTINATION)]
    parents: bool => (settings, _) settings.options.parents = true;

    /// Remove a target that cannot be opened, and try again
    #[arg(short, long, help_heading = EXISTING)]
    force: bool => (settings, _) settings.options.overwrite.force = true;

    /// Ask before a file is overwritten (overrides -n)
    #[arg(short, long, help_heading = EXISTING)]
    interactive: bool => (settings, _) {
        (settings.options.overwrite.ask, settings.no_clobber) = (true, false);
    };

    /// Leave existing files as they are (overrides -i)
    #[arg(short, long, help_heading = EXISTING)]
    no_clobber: bool => (settings, _) {
        (settings.options.overwrite.ask, settings.no_clobber) = (false, true);
    };

    /// Which existing files are overwritten; without a value: older
    #[arg(short, long, value_name = "WHEN", action = ArgAction::Append, num_args = 0..=1, require_equals = true,
          value_parser = Words::<Overwriting>::new(), default_missing_value = "older", help_heading = EXISTING)]
    update: Vec<OsString> => (settings, when) {
        settings.options.overwrite.when = choose::<Overwriting>("--update", when)?.into();
        Ok(())
    };

    /// Remove each existing file before its new contents are written
    #[arg(long, help_heading = EXISTING)]
    remove_destination: bool => (settings, _) settings.options.overwrite.remove = true;

    /// The same as --backup without a value
    #[arg(short = 'b', help_heading = EXISTING)]
    backup_usual: bool => (settings, _) {
        settings.backup.get_or_insert_default();
    };

    /// Keep what is overwritten, renamed [default: $VERSION_CONTROL, or existing]
    #[arg(long, value_name = "CONTROL", action = ArgAction::Append, num_args = 0..=1, require_equals = true,
          value_parser = Words::<BackupControl>::new(), default_missing_value = "", help_heading = EXISTING)]
    backup: Vec<OsString> => (settings, control) {
        let backup = settings.backup.get_or_insert_default();
        if !control.is_empty() {
            *backup = control.into();
        }
    };

    /// Suffix of a simple backup [default: $SIMPLE_BACKUP_SUFFIX, or ~]
    #[arg(short = 'S', long, action = ArgAction::Append, allow_hyphen_values = true, help_heading = EXISTING)]
    suffix: Vec<OsString> => (settings, suffix) {
        settings.backup.get_or_insert_default();
        settings.suffix = Some(suffix.into());
    };

    /// Copy a directory into the target of a symbolic link of its name
    ///
    /// Without it such a link is an error.
    #[arg(long, help_heading = EXISTING)]
    keep_directory_symlink: bool => (settings, _) settings.options.keep_directory_symlink = true;

    /// Write into existing files, instead of replacing them by new ones
    #[arg(long, help_heading = EXISTING)]
    in_place: bool => (settings, _) settings.options.in_place = true;

    /// Make hard links instead of copies
    #[arg(short, long, help_heading = HOW)]
    link: bool => (settings, _) settings.link = true;

    /// Make symbolic links instead of copies
    #[arg(short, long, help_heading = HOW)]
    symbolic_link: bool => (settings, _) settings.symbolic_link = true;

    /// What happens to holes
    #[arg(long, value_name = "WHEN", action = ArgAction::Append, value_parser = Words::<SparseWhen>::new(),
          help_heading = HOW)]
    sparse: Vec<OsString> => (settings, when) {
        settings.options.sparse = choose::<SparseWhen>("--sparse", when)?.into();
        Ok(())
    };

    /// Share blocks with the source; without a value: always
    #[arg(long, value_name = "WHEN", action = ArgAction::Append, num_args = 0..=1, require_equals = true,
          value_parser = Words::<ShareBlocks>::new(), default_missing_value = "always", help_heading = HOW)]
    reflink: Vec<OsString> => (settings, when) {
        settings.options.reflink = choose::<ShareBlocks>("--reflink", when)?.into();
        Ok(())
    };

    /// When data is forced to the disk [default: none]
    #[arg(long, value_name = "WHEN", action = ArgAction::Append, value_parser = Words::<DataSync>::new(),
          help_heading = HOW)]
    fsync: Vec<OsString> => (settings, when) {
        settings.options.fsync = choose::<DataSync>("--fsync", when)?.into();
        Ok(())
    };

    /// Continue the same copy after it was stopped or killed
    ///
    /// Finished files are not copied again.
    #[arg(long, help_heading = HOW)]
    resume: bool => (settings, _) settings.options.resume = true;

    /// Read back what was written, and compare it with the source
    ///
    /// A file gets its name only after that.
    #[arg(long, help_heading = HOW)]
    verify: bool => (settings, _) settings.options.verify = true;

    /// Write at most this many bytes a second, such as 20MB
    ///
    /// A number, followed by K, M, G (of 1024) or kB, MB, GB (of 1000).
    #[arg(long, value_name = "RATE", action = ArgAction::Append, allow_hyphen_values = true, help_heading = HOW)]
    bwlimit: Vec<OsString> => (settings, rate) {
        settings.options.bwlimit = bytes("--bwlimit", rate)?;
        Ok(())
    };

    /// Report what would be copied; change nothing
    #[arg(long, help_heading = HOW)]
    dry_run: bool => (settings, _) settings.options.dry_run = true;

    /// Threads [default: as many as help here]
    #[arg(long, value_name = "N", action = ArgAction::Append, help_heading = HOW)]
    jobs: Vec<OsString> => (settings, count) {
        settings.options.jobs = at_least(1, "--jobs", count)?;
        Ok(())
    };

    /// How small and medium files are copied
    #[arg(long, value_name = "NAME", action = ArgAction::Append, value_parser = Words::<SmallFileEngine>::new(),
          help_heading = HOW)]
    engine: Vec<OsString> => (settings, name) {
        settings.options.engine = choose::<SmallFileEngine>("--engine", name)?.into();
        Ok(())
    };

    /// Copy one directory in parts: write the plan to FILE
    ///
    /// Walks the directory. --shard and --finish take the plan as their operand.
    #[arg(long, value_name = "FILE", action = ArgAction::Append, help_heading = MACHINES)]
    plan: Vec<OsString> => (settings, file) match settings.plan {
        Some(_) => Err(Misuse::with_hint("--plan is given once: a plan is written to one file")),
        None => {
            settings.plan = Some(file.into());
            Ok(())
        }
    };

    /// With --plan or --ray, make at most this many shards
    ///
    /// The default is 64, and three for each worker with --ray.
    #[arg(long, value_name = "N", action = ArgAction::Append, help_heading = MACHINES)]
    shards: Vec<OsString> => (settings, count) {
        settings.shards = Some(at_least(1, "--shards", count)?);
        Ok(())
    };

    /// Copy shard K (counted from 0) of the plan that is the operand
    #[arg(long, value_name = "K", action = ArgAction::Append, help_heading = MACHINES)]
    shard: Vec<OsString> => (settings, index) {
        let index = at_least(0, "--shard", index)?;
        match settings.shard.replace(index) {
            Some(_) => Err(Misuse::with_hint("--shard is given once: one shard is copied at a time")),
            None => Ok(()),
        }
    };

    /// After all shards, give the tree its metadata and its name
    ///
    /// The operand is the plan. With --ray, copies what is missing first.
    #[arg(long, help_heading = MACHINES)]
    finish: bool => (settings, _) settings.finish = true;

    /// Copy one directory in shards, as tasks of a Ray cluster
    ///
    /// auto, local, ray://HOST:PORT or HOST:PORT.
    #[arg(long, value_name = "ADDRESS", action = ArgAction::Append, help_heading = MACHINES)]
    ray: Vec<String> => (settings, address) match settings.ray {
        Some(_) => Err(Misuse::with_hint("--ray is given once: one cluster copies the shards")),
        None => {
            settings.ray = address.to_str().map(String::from);
            Ok(())
        }
    };

    /// Report what is copied
    #[arg(short, long, help_heading = OUTPUT)]
    verbose: bool => (settings, _) settings.verbose = true;

    /// Also report how each file was copied (implies -v)
    #[arg(long, help_heading = OUTPUT)]
    debug: bool => (settings, _) settings.debug = true;

    /// Show files, bytes and rate during the copy
    #[arg(long, value_name = "WHEN", action = ArgAction::Append, value_parser = Words::<When>::new(),
          help_heading = OUTPUT)]
    progress: Vec<OsString> => (settings, when) {
        settings.progress = choose("--progress", when)?;
        Ok(())
    };

    /// At the end, report how much of each kind was copied
    #[arg(long, help_heading = OUTPUT)]
    stats: bool => (settings, _) settings.stats = true;

    /// Print one JSON object a line
    ///
    /// Each event, and the report at the end: docs/copy.md names their keys.
    #[arg(long, help_heading = OUTPUT)]
    json: bool => (settings, _) settings.json = true;
}

/// The command line of `proactor cp`.
pub(crate) struct Cp {
    /// The flags with their values, or empty ones, in the order in which they were given.
    given: Vec<(Effect, OsString)>,
}

impl Cp {
    /// Applies the flags: later ones override earlier ones about the same subject.
    pub(super) fn settings(&self) -> Result<Settings, Misuse> {
        let mut settings = Settings::default();
        for (effect, value) in &self.given {
            effect(&mut settings, value)?;
        }
        settings.settle()?;
        Ok(settings)
    }
}

impl FromArgMatches for Cp {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut given = Vec::new();
        for (name, effect) in EFFECTS {
            if matches.value_source(name) != Some(ValueSource::CommandLine) {
                continue;
            }
            let values = matches.get_raw(name).into_iter().flatten();
            let places = matches.indices_of(name).into_iter().flatten();
            given.extend(
                places
                    .zip(values)
                    .map(|(at, value)| (at, *effect, value.to_os_string())),
            );
        }
        given.sort_by_key(|(at, ..)| *at);
        Ok(Cp {
            given: given
                .into_iter()
                .map(|(_, effect, value)| (effect, value))
                .collect(),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Cp::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for Cp {
    fn augment_args(command: Command) -> Command {
        super::abbreviations::of_gnu(Flags::augment_args(command))
    }

    fn augment_args_for_update(command: Command) -> Command {
        super::abbreviations::of_gnu(Flags::augment_args_for_update(command))
    }
}

//! The flags of `proactor cp`, each described once. `wishes.rs` interprets their order.

use clap::{ArgAction, Args};
use std::ffi::OsString;

/// Flags of `proactor cp`. A flag may be repeated, as GNU's getopt allows, and its last value counts.
/// Destinations are named once: --target-directory, as in GNU cp, --plan, --ray and --shard.
#[derive(Args)]
#[command(
    args_override_self = true,
    disable_help_flag = true,
    disable_version_flag = true,
    infer_long_args = true
)]
pub(super) struct Flags {
    /// Files and directories to copy, and the target: a new name, or a directory
    #[arg(value_name = "SOURCE... TARGET")]
    pub operands: Vec<OsString>,

    /// Copy directories with everything below them
    #[arg(short, visible_short_alias = 'R', long, help_heading = "What is copied")]
    pub recursive: bool,
    /// The same as -dR --preserve=all
    #[arg(short, long, help_heading = "What is copied")]
    pub archive: bool,
    /// The same as --no-dereference --preserve=links
    #[arg(short = 'd', help_heading = "What is copied")]
    pub links_as_links: bool,
    /// Copy symbolic links as links: the default with -r
    #[arg(short = 'P', long, help_heading = "What is copied")]
    pub no_dereference: bool,
    /// Follow all symbolic links in the sources: the default without -r
    #[arg(short = 'L', long, help_heading = "What is copied")]
    pub dereference: bool,
    /// Follow the symbolic links that are named as sources, and no others
    #[arg(short = 'H', help_heading = "What is copied")]
    pub dereference_named: bool,
    /// Skip what is on another file system than the source that was named
    #[arg(short = 'x', long, help_heading = "What is copied")]
    pub one_file_system: bool,
    /// Copy metadata only: new files stay empty, and existing files keep their contents
    #[arg(long, help_heading = "What is copied")]
    pub attributes_only: bool,
    /// With -r, read FIFOs and devices as if they were files instead of making new ones
    #[arg(long, help_heading = "What is copied")]
    pub copy_contents: bool,
    /// Also copy what FILE lists ("-": stdin), one path a line, or separated by zeros as `find -print0`
    /// writes them; can be repeated
    #[arg(long, value_name = "FILE", action = ArgAction::Append, allow_hyphen_values = true,
          help_heading = "What is copied")]
    pub files_from: Vec<OsString>,
    /// Skip what matches this pattern, and everything below it; of these and --include, the first match
    /// decides
    #[arg(long, value_name = "PATTERN", action = ArgAction::Append, allow_hyphen_values = true,
          help_heading = "What is copied")]
    pub exclude: Vec<OsString>,
    /// Copy what matches this pattern, whatever later patterns say
    #[arg(long, value_name = "PATTERN", action = ArgAction::Append, allow_hyphen_values = true,
          help_heading = "What is copied")]
    pub include: Vec<OsString>,
    /// The same as --exclude for each line of FILE ("-": stdin) that is not empty and does not begin with #
    #[arg(long, value_name = "FILE", action = ArgAction::Append, allow_hyphen_values = true,
          help_heading = "What is copied")]
    pub exclude_from: Vec<OsString>,
    /// Remove trailing slashes from each source
    #[arg(long, help_heading = "What is copied")]
    pub strip_trailing_slashes: bool,

    /// The same as --preserve=mode,ownership,timestamps
    #[arg(short = 'p', help_heading = "What is preserved")]
    pub preserve_usual: bool,
    /// Preserve these: mode, ownership, timestamps (the default), links, context, xattr, all (of these),
    /// flags
    #[arg(long, value_name = "LIST", action = ArgAction::Append, num_args = 0..=1, require_equals = true,
          default_missing_value = "mode,ownership,timestamps", help_heading = "What is preserved")]
    pub preserve: Vec<OsString>,
    /// Let SELinux give each copy its default context, which happens anyway unless the context is preserved
    #[arg(short = 'Z', help_heading = "What is preserved")]
    pub default_context: bool,
    /// The same as -Z, or give each copy the context CTX
    #[arg(long, value_name = "CTX", action = ArgAction::Append, num_args = 0..=1, require_equals = true,
          default_missing_value = "", help_heading = "What is preserved")]
    pub context: Vec<OsString>,
    /// Do not preserve these
    #[arg(long, value_name = "LIST", action = ArgAction::Append, help_heading = "What is preserved")]
    pub no_preserve: Vec<OsString>,

    /// Copy into this directory
    #[arg(short, long, value_name = "DIRECTORY", action = ArgAction::Append, allow_hyphen_values = true,
          help_heading = "Destination")]
    pub target_directory: Vec<OsString>,
    /// Treat the target as the new name itself, even if it is a directory
    #[arg(short = 'T', long, help_heading = "Destination")]
    pub no_target_directory: bool,
    /// Append the full path of each source to the target directory
    #[arg(long, help_heading = "Destination")]
    pub parents: bool,

    /// Remove a target that cannot be opened, and try again
    #[arg(short, long, help_heading = "Existing files")]
    pub force: bool,
    /// Ask before a file is overwritten (overrides -n)
    #[arg(short, long, help_heading = "Existing files")]
    pub interactive: bool,
    /// Leave existing files as they are (overrides -i)
    #[arg(short, long, help_heading = "Existing files")]
    pub no_clobber: bool,
    /// Which existing files are overwritten: all, none, none-fail (each is an error), older (without a value)
    #[arg(short, long, value_name = "WHEN", action = ArgAction::Append, num_args = 0..=1, require_equals = true,
          default_missing_value = "older", help_heading = "Existing files")]
    pub update: Vec<OsString>,
    /// Remove each existing file before its new contents are written
    #[arg(long, help_heading = "Existing files")]
    pub remove_destination: bool,
    /// The same as --backup without a value
    #[arg(short = 'b', help_heading = "Existing files")]
    pub backup_usual: bool,
    /// Keep what is overwritten, renamed: none (off), simple (never), numbered (t), or existing (nil):
    /// numbered where there are numbered ones [default: $VERSION_CONTROL, or existing]
    #[arg(long, value_name = "CONTROL", action = ArgAction::Append, num_args = 0..=1, require_equals = true,
          default_missing_value = "", help_heading = "Existing files")]
    pub backup: Vec<OsString>,
    /// Suffix of a simple backup [default: $SIMPLE_BACKUP_SUFFIX, or ~]
    #[arg(short = 'S', long, action = ArgAction::Append, allow_hyphen_values = true,
          help_heading = "Existing files")]
    pub suffix: Vec<OsString>,
    /// Copy a directory into the target of a symbolic link of its name, instead of refusing to
    #[arg(long, help_heading = "Existing files")]
    pub keep_directory_symlink: bool,
    /// Write into existing files, instead of replacing them by new ones
    #[arg(long, help_heading = "Existing files")]
    pub in_place: bool,

    /// Make hard links instead of copies
    #[arg(short, long, help_heading = "How it is copied")]
    pub link: bool,
    /// Make symbolic links instead of copies
    #[arg(short, long, help_heading = "How it is copied")]
    pub symbolic_link: bool,
    /// Holes: kept (auto), also made from zeros (always), filled (never)
    #[arg(long, value_name = "WHEN", action = ArgAction::Append, help_heading = "How it is copied")]
    pub sparse: Vec<OsString>,
    /// Share blocks with the source: always (without a value), where the file system can (auto), never
    #[arg(long, value_name = "WHEN", action = ArgAction::Append, num_args = 0..=1, require_equals = true,
          default_missing_value = "always", help_heading = "How it is copied")]
    pub reflink: Vec<OsString>,
    /// Force data to the disk: none, end (once, before the command ends), each (before a file gets its name)
    #[arg(long, value_name = "WHEN", action = ArgAction::Append, help_heading = "How it is copied")]
    pub fsync: Vec<OsString>,
    /// Continue the same copy after it was stopped or killed, without copying finished files again
    #[arg(long, help_heading = "How it is copied")]
    pub resume: bool,
    /// Read back what was written, before it gets its name, and compare it with the source
    #[arg(long, help_heading = "How it is copied")]
    pub verify: bool,
    /// Write at most this many bytes a second: a number, followed by K, M, G (of 1024) or kB, MB, GB (of
    /// 1000)
    #[arg(long, value_name = "RATE", action = ArgAction::Append, allow_hyphen_values = true, help_heading = "How it is copied")]
    pub bwlimit: Vec<OsString>,
    /// Only report what would be copied and what could not be: nothing is made or changed
    #[arg(long, help_heading = "How it is copied")]
    pub dry_run: bool,
    /// Threads [default: as many as help here]
    #[arg(long, value_name = "N", action = ArgAction::Append, help_heading = "How it is copied")]
    pub jobs: Vec<OsString>,
    /// How small and medium files are copied: by threads, by each with many at once in a ring of io_uring
    /// (uring; an error where there is none), or (auto) by what is faster: rings for --fsync=each and
    /// --verify, threads for everything else
    #[arg(long, value_name = "NAME", action = ArgAction::Append, help_heading = "How it is copied")]
    pub engine: Vec<OsString>,

    /// Copy one directory in parts: walk it, and write the plan for --shard and --finish to FILE
    #[arg(long, value_name = "FILE", action = ArgAction::Append, help_heading = "On many machines")]
    pub plan: Vec<OsString>,
    /// With --plan or --ray, make at most this many shards [default: 64, or with --ray three for each worker]
    #[arg(long, value_name = "N", action = ArgAction::Append, help_heading = "On many machines")]
    pub shards: Vec<OsString>,
    /// Copy shard K (counted from 0) of the plan that is the operand
    #[arg(long, value_name = "K", action = ArgAction::Append, help_heading = "On many machines")]
    pub shard: Vec<OsString>,
    /// Finish after all shards of the plan that is the operand: give the tree its metadata and its name. With
    /// --ray, copy what is missing first
    #[arg(long, help_heading = "On many machines")]
    pub finish: bool,
    /// Copy one directory in shards, as tasks of a Ray cluster: auto, local, ray://HOST:PORT or HOST:PORT
    #[arg(long, value_name = "ADDRESS", action = ArgAction::Append, help_heading = "On many machines")]
    pub ray: Vec<String>,

    /// Report what is copied
    #[arg(short, long, help_heading = "Output")]
    pub verbose: bool,
    /// Also report how each file was copied (implies -v)
    #[arg(long, help_heading = "Output")]
    pub debug: bool,
    /// Show files, bytes and rate during the copy: on a terminal (auto), always, never
    #[arg(long, value_name = "WHEN", action = ArgAction::Append, help_heading = "Output")]
    pub progress: Vec<OsString>,
    /// At the end, report how much of each kind was copied
    #[arg(long, help_heading = "Output")]
    pub stats: bool,
    /// Print one JSON object a line: each event, and the report at the end (docs/copy.md names their keys)
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Print help
    #[arg(long, action = ArgAction::HelpShort, help_heading = "Output")]
    help: Option<bool>,
    /// Print version
    #[arg(long, action = ArgAction::Version, help_heading = "Output")]
    version: Option<bool>,
}

//! The options of a command line as they were given: clap keeps only the last value of a repeated one.
//!
//! This handles only long options, in commands that accept no value that begins with two dashes.

use clap::{Arg, Command};
use std::ffi::OsString;

/// An option of a command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Given<'a> {
    /// Name without dashes, also if an alias was given.
    pub(crate) name: &'a str,
    pub(crate) times: usize,
    takes_list: bool,
    is_switch: bool,
    adds_up: bool,
}

/// Returns the options among `words` that `command` knows, in the order in which they came first.
pub(crate) fn options<'a>(command: &'a Command, words: &[OsString]) -> Vec<Given<'a>> {
    let mut all: Vec<Given<'a>> = Vec::new();
    for word in words.iter().take_while(|word| *word != "--") {
        let Some(name) = word.to_str().and_then(|word| word.strip_prefix("--")) else {
            continue;
        };
        let name = name.split_once('=').map_or(name, |(name, _)| name);
        let Some(arg) = command.get_arguments().find(|arg| is_called(arg, name)) else {
            continue;
        };
        let name = arg.get_long().expect("is_called compared it");
        match all.iter_mut().find(|given| given.name == name) {
            Some(given) => given.times += 1,
            None => all.push(Given {
                name,
                times: 1,
                takes_list: arg.get_value_delimiter().is_some(),
                is_switch: !arg.get_action().takes_values(),
                adds_up: matches!(arg.get_action(), clap::ArgAction::Append),
            }),
        }
    }
    all
}

fn is_called(arg: &Arg, name: &str) -> bool {
    let Some(long) = arg.get_long() else { return false };
    long == name || arg.get_all_aliases().is_some_and(|all| all.contains(&name))
}

/// Warns of each repeated option that its first values do not count.
pub(crate) fn warn_of_repeated(who: &str, given: &[Given<'_>]) {
    for option in given {
        if let Some(warning) = repeated(option) {
            crate::complain(&format!("{who}: warning: {warning}"));
        }
    }
}

fn repeated(option: &Given<'_>) -> Option<String> {
    if option.times == 1 || option.is_switch || option.adds_up {
        return None;
    }
    let Given { name, times, .. } = option;
    let list = match option.takes_list {
        true => format!("; several values are one list, as in --{name} A,B"),
        false => String::new(),
    };
    Some(format!(
        "--{name} is given {times} times, and only the last one counts{list}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ArgAction;

    fn command() -> Command {
        let list = Arg::new("list")
            .long("list-of")
            .visible_alias("alias")
            .value_delimiter(',');
        let more = Arg::new("more").long("more").action(ArgAction::Append);
        let switch = Arg::new("switch").long("switch").action(ArgAction::SetTrue);
        Command::new("test").args([list, more, switch, Arg::new("one").long("one"), Arg::new("word")])
    }

    fn warnings(words: &[&str]) -> Vec<String> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        options(&command(), &words).iter().filter_map(repeated).collect()
    }

    #[test]
    fn what_is_given_once_adds_up_or_is_a_switch_counts() {
        let words = [
            "--one",
            "1",
            "--more=1",
            "--more",
            "2",
            "--switch",
            "--switch",
            "--alias=a",
        ];
        assert_eq!(warnings(&words), [""; 0]);
    }

    #[test]
    fn values_that_others_follow_are_told() {
        assert_eq!(
            warnings(&["--list-of=a", "--one", "1", "--alias", "b", "--one=2", "--one=3", "--", "--one=4"]),
            [
                "--list-of is given 2 times, and only the last one counts; several values are one list, as in \
                 --list-of A,B",
                "--one is given 3 times, and only the last one counts",
            ]
        );
    }
}

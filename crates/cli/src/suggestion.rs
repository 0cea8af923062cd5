//! The option that was probably meant by a misspelt one, where clap does not look for it.

use clap::Command;

/// Least similarity of a suggestion, as in clap.
const LEAST: f64 = 0.7;

/// Returns the option of `command` that is most like `name`, in a sentence's parentheses, or nothing.
pub(crate) fn like(command: &Command, name: &str, hidden: &[&str]) -> String {
    let options = command.get_arguments().filter_map(|arg| arg.get_long());
    let similar = options
        .filter(|long| !hidden.contains(long))
        .map(|long| (strsim::jaro(name, long), long))
        .filter(|(likeness, _)| *likeness > LEAST);
    let best = similar.max_by(|(one, _), (other, _)| one.total_cmp(other));
    best.map_or_else(String::new, |(_, long)| format!(" (did you mean '--{long}'?)"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Args as _;

    #[test]
    fn the_most_similar_one() {
        let serve = crate::serve::Serve::augment_args(Command::new("serve"));
        assert_eq!(like(&serve, "wrokers", &[]), " (did you mean '--workers'?)");
        assert_eq!(like(&serve, "confg", &["config"]), "");
        assert_eq!(like(&serve, "nothing", &[]), "");
    }
}

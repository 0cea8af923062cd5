//! The `proactor` command as a library.

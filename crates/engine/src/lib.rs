//! Placeholder until the first commit of code.

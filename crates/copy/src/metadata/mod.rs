//! Owner, permissions, times, extended attributes, access control lists and inode flags.

pub(crate) mod apply;
pub(crate) mod attributes;
pub(crate) mod inode_flags;
pub(crate) mod xattr;

//! Owner, permissions, times, extended attributes, access control lists and inode flags.

pub(crate) mod apply;
pub(crate) mod attributes;
mod copier;
pub(crate) mod inode_flags;
pub(crate) mod xattr;

pub(crate) use copier::MetadataCopier;

//! What one thread needs to copy metadata.

use crate::context::reporter::Reporter;
use crate::context::Context;
use crate::metadata::inode_flags::Locks;
use std::rc::Rc;

/// Gives copies everything but their contents. What fails is reported, and the rest is done.
pub(crate) struct MetadataCopier<'a> {
    pub(super) context: &'a Context<'a>,
    /// The locks that are set when everything has its name.
    pub(super) locks: &'a Locks,
    pub(super) reporter: Rc<Reporter<'a>>,
    /// Names and one value of extended attributes, for the file in hand.
    pub(super) names: Vec<u8>,
    pub(super) value: Vec<u8>,
}

impl<'a> MetadataCopier<'a> {
    pub(crate) fn new(
        context: &'a Context<'a>,
        locks: &'a Locks,
        reporter: Rc<Reporter<'a>>,
    ) -> MetadataCopier<'a> {
        MetadataCopier {
            context,
            locks,
            reporter,
            names: Vec::new(),
            value: Vec::new(),
        }
    }
}

//! What one thread needs to copy metadata.

use crate::job::reporter::Reporter;
use crate::job::run::Run;
use std::rc::Rc;

/// Gives copies everything but their contents. What fails is reported, and the rest is done.
pub(crate) struct MetadataCopier<'a> {
    pub(super) run: &'a Run<'a>,
    pub(super) reporter: Rc<Reporter<'a>>,
    /// Names and one value of extended attributes, for the file in hand.
    pub(super) names: Vec<u8>,
    pub(super) value: Vec<u8>,
}

impl<'a> MetadataCopier<'a> {
    pub(crate) fn new(run: &'a Run<'a>, reporter: Rc<Reporter<'a>>) -> MetadataCopier<'a> {
        MetadataCopier {
            run,
            reporter,
            names: Vec::new(),
            value: Vec::new(),
        }
    }
}

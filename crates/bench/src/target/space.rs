//! Check for free space.

use std::path::Path;

/// Divisor of the size that is left to others: a full disk hurts them.
const SPARE_SHARE: u64 = 50;

/// # Errors
/// If there is not, with the numbers.
pub(crate) fn check(directory: &Path, needed: u64) -> Result<(), String> {
    let facts = rustix::fs::statvfs(directory).map_err(|e| format!("{}: {e}", directory.display()))?;
    let free = facts.f_bavail.saturating_mul(facts.f_frsize);
    let usable = free - free / SPARE_SHARE;
    if needed <= usable {
        return Ok(());
    }
    Err(format!(
        "{}: {} MiB are needed, and {} MiB are free (2 % of them are left to others)",
        directory.display(),
        needed.div_ceil(1 << 20),
        free >> 20
    ))
}

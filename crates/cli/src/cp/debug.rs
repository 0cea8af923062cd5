//! Text of `--debug` for a file.

use proactor_copy::{Answer, Detection, How};

/// Describes how the contents were copied, in the words of GNU cp.
pub(super) fn how(how: &How) -> String {
    let answer = |answer| match answer {
        Answer::Yes => "yes",
        Answer::No => "no",
        Answer::Unknown => "unknown",
        Answer::Unsupported => "unsupported",
    };
    let sparse = match how.sparse {
        Detection::Unknown => "unknown",
        Detection::No => "no",
        Detection::SeekHole => "SEEK_HOLE",
        Detection::SeekHoleAndZeros => "SEEK_HOLE + zeros",
    };
    let (offload, reflink) = (answer(how.offload), answer(how.reflink));
    format!("copy offload: {offload}, reflink: {reflink}, sparse detection: {sparse}")
}

//! Which part of a tree is a shard's: an interval of its paths in one order, that of a walk which takes each
//! directory's entries by name and a directory before what is in it.
//!
//! So a shard is two paths, whatever the tree's size, and each shard finds what is its own by comparing names. The
//! two paths are never opened: what a hostile plan puts into them changes who copies what, and nothing else.

use crate::api::json::Name;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::ffi::CStr;
use std::sync::Arc;

/// A place in the order of paths: the components of a path below the source.
pub(crate) type Place = Vec<Name>;

/// The paths from `from` on, up to and without `to`; no bound where there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Range {
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) from: Option<Place>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) to: Option<Place>,
}

/// The meaning of a range within one directory: for the bounds that lie below it, the components that are left.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bounds {
    from: Option<Tail>,
    to: Option<Tail>,
}

/// A bound and how many of its components lead to the directory: at least one is left.
#[derive(Clone, Debug)]
struct Tail {
    place: Arc<[Name]>,
    entered: usize,
}

impl Tail {
    fn of(place: &Option<Place>) -> Option<Tail> {
        let place = place.as_deref().filter(|place| !place.is_empty())?;
        Some(Tail {
            place: place.into(),
            entered: 0,
        })
    }

    fn compare(&self, name: &CStr) -> Ordering {
        name.to_bytes().cmp(self.place[self.entered].0.to_bytes())
    }

    fn below(&self) -> Option<Tail> {
        let entered = self.entered + 1;
        (entered < self.place.len()).then(|| Tail {
            place: self.place.clone(),
            entered,
        })
    }
}

/// An entry that the range reaches.
pub(crate) struct Reached {
    /// The entry itself is in the range, and not only something below it.
    pub(crate) own: bool,
    /// The meaning of the range in it, if it is a directory.
    pub(crate) bounds: Bounds,
}

impl Range {
    /// The top of the tree, which only the first shard has for its own.
    pub(crate) fn top(&self) -> Reached {
        let bounds = Bounds {
            from: Tail::of(&self.from),
            to: Tail::of(&self.to),
        };
        Reached {
            own: bounds.from.is_none(),
            bounds,
        }
    }
}

impl Bounds {
    /// Returns what the range has of an entry of this directory, if anything.
    pub(crate) fn enter(&self, name: &CStr) -> Option<Reached> {
        let mut reached = Reached {
            own: true,
            bounds: Bounds::default(),
        };
        if let Some(from) = &self.from {
            match from.compare(name) {
                Ordering::Less => return None,
                Ordering::Equal => {
                    reached.bounds.from = from.below();
                    reached.own = reached.bounds.from.is_none();
                }
                Ordering::Greater => {}
            }
        }
        if let Some(to) = &self.to {
            match to.compare(name) {
                Ordering::Less => {}
                Ordering::Equal => reached.bounds.to = Some(to.below()?),
                Ordering::Greater => return None,
            }
        }
        Some(reached)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn place() -> impl Strategy<Value = Vec<String>> {
        proptest::collection::vec("[a-c]{1,2}", 0..4)
    }

    fn names(of: &[String]) -> Place {
        of.iter()
            .map(|name| Name::new(name.clone().into_bytes()).unwrap())
            .collect()
    }

    /// Returns true if the range has a path, found by entering one component after the other.
    fn has(range: &Range, path: &[String]) -> bool {
        let mut reached = range.top();
        for name in names(path) {
            match reached.bounds.enter(&name.0) {
                Some(next) => reached = next,
                None => return false,
            }
        }
        reached.own
    }

    proptest! {
        #[test]
        fn ranges_are_intervals(from in place(), to in place(), path in place()) {
            prop_assume!(from <= to && !to.is_empty());
            let range = Range { from: Some(names(&from)), to: Some(names(&to)) };
            prop_assert_eq!(has(&range, &path), from <= path && path < to);
        }

        #[test]
        fn each_path_is_in_one(mut cuts in proptest::collection::vec(place(), 0..6), path in place()) {
            cuts.retain(|cut| !cut.is_empty());
            cuts.sort();
            cuts.dedup();
            let bounds: Vec<_> = std::iter::once(None)
                .chain(cuts.iter().map(|cut| Some(names(cut))))
                .chain([None])
                .collect();
            let of = bounds
                .windows(2)
                .filter(|pair| has(&Range { from: pair[0].clone(), to: pair[1].clone() }, &path))
                .count();
            prop_assert_eq!(of, 1);
        }
    }
}

//! How much there is in a tree and where, kept in bounded memory, to cut it into shards of about the same cost.
//!
//! Each directory has a list of pieces, runs of entries by name. What is light is put together with its neighbours,
//! and a directory that is light altogether is one piece of its parent's. So the memory depends on the number of
//! shards and not on the tree. The sums are exact; which piece they stand at is not quite.

use crate::api::json::Name;
use crate::pair::range::Place;
use std::ffi::CStr;

/// The cost of an entry besides its bytes, in bytes: on a shared file system, creating a file takes about as long
/// as writing some hundred kilobytes.
const ENTRY_COST_BYTES: u64 = 256 << 10;

/// Pieces that a directory may have before they are put together, and about how many are left then: a huge directory
/// needs 3 MB, and is cut to within a hundredth of a shard where there are 100.
const MOST_PIECES: usize = 32_768;
const FEWER_PIECES: u64 = 8192;

/// A directory keeps its own pieces if it is heavier than this part of a shard: lighter ones are not cut.
const GRAIN: u64 = 16;

/// The size of something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Weight {
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
}

impl Weight {
    pub(crate) fn cost(self) -> u64 {
        self.bytes
            .saturating_add(self.entries.saturating_mul(ENTRY_COST_BYTES))
    }

    fn add(&mut self, other: Weight) {
        self.entries += other.entries;
        self.bytes += other.bytes;
    }
}

/// The entries of a directory by name, with what is in them.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    pieces: Vec<Piece>,
    total: Weight,
}

/// The entries from a name on, up to the next piece's.
#[derive(Debug)]
struct Piece {
    from: Box<[u8]>,
    weight: Weight,
    /// A heavy directory's own pieces. Its own entry comes before them.
    inside: Option<Box<Pieces>>,
}

impl Pieces {
    pub(crate) fn add(&mut self, name: &CStr, weight: Weight) {
        self.push(name, weight, None);
    }

    /// Adds a directory that is done, of which `all` shards' worth is known by now.
    pub(crate) fn add_directory(&mut self, name: &CStr, inside: Pieces, all: Weight, shards: usize) {
        let mut weight = inside.total;
        weight.entries += 1;
        let light = weight.cost() < all.cost() / GRAIN.saturating_mul(shards as u64);
        self.push(name, weight, (!light).then(|| inside.into()));
    }

    fn push(&mut self, name: &CStr, weight: Weight, inside: Option<Box<Pieces>>) {
        self.total.add(weight);
        self.pieces.push(Piece {
            from: name.to_bytes().into(),
            weight,
            inside,
        });
        if self.pieces.len() >= MOST_PIECES {
            self.put_together();
        }
    }

    fn put_together(&mut self) {
        let light = self.total.cost() / FEWER_PIECES;
        let is_light = |piece: &Piece| piece.inside.is_none() && piece.weight.cost() < light;
        self.sort();
        self.pieces.dedup_by(|next, piece| {
            let both = is_light(piece) && is_light(next);
            if both {
                piece.weight.add(next.weight);
            }
            both
        });
    }

    fn sort(&mut self) {
        self.pieces.sort_by(|one, other| one.from.cmp(&other.from));
    }

    fn into_sorted(mut self) -> std::vec::IntoIter<Piece> {
        self.sort();
        std::mem::take(&mut self.pieces).into_iter()
    }

    /// Calls a function with each piece's place and weight, in order.
    fn each(self, mut visit: impl FnMut(&Place, Weight)) {
        let mut at = Place::new();
        let mut open = vec![self.into_sorted()];
        while let Some(pieces) = open.last_mut() {
            let Some(piece) = pieces.next() else {
                open.pop();
                at.pop();
                continue;
            };
            at.push(Name::new(piece.from.into_vec()).expect("it was a name"));
            if let Some(inside) = piece.inside {
                visit(&at, Weight { entries: 1, bytes: 0 });
                open.push(inside.into_sorted());
            } else {
                visit(&at, piece.weight);
                at.pop();
            }
        }
    }

    /// Finds places that part the tree into at most this many shards, and about how much is before the first, between them
    /// and after the last.
    pub(crate) fn cut(self, shards: usize) -> (Vec<Place>, Vec<Weight>) {
        let (total, shards) = (u128::from(self.total.cost()), shards as u128);
        let (mut places, mut weights) = (Vec::<Place>::new(), Vec::new());
        let (mut before, mut current) = (0_u128, Weight::default());
        let mut next = 1;
        self.each(|place, weight| {
            let cost = u128::from(weight.cost());
            // Before the piece or behind it, whichever is nearer to where the shard ought to end.
            let middle = (2 * before + cost).saturating_mul(shards);
            let reached = middle.div_ceil((2 * total).max(1)).min(shards);
            let cuts = reached > next;
            next = next.max(reached);
            if cuts && current != Weight::default() {
                places.push(place.clone());
                weights.push(std::mem::take(&mut current));
            }
            before += cost;
            current.add(weight);
        });
        weights.push(current);
        (places, weights)
    }
}

impl Drop for Pieces {
    /// Level by level instead of by recursion: a chain of directories may be as deep as it likes.
    fn drop(&mut self) {
        let mut pieces = std::mem::take(&mut self.pieces);
        while let Some(piece) = pieces.pop() {
            if let Some(mut inside) = piece.inside {
                pieces.append(&mut inside.pieces);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;

    fn name(number: usize) -> CString {
        CString::new(format!("{number:07}")).unwrap()
    }

    fn files(count: usize, bytes: u64) -> Pieces {
        let mut pieces = Pieces::default();
        // In no order, as a directory has them.
        for number in 0..count {
            pieces.add(&name(number * 7919 % count), Weight { entries: 1, bytes });
        }
        pieces
    }

    #[test]
    fn a_flat_directory_is_cut_evenly_in_bounded_memory() {
        let pieces = files(1_000_003, 4096);
        assert!(pieces.pieces.len() < MOST_PIECES);
        let (places, weights) = pieces.cut(10);
        assert_eq!((places.len(), weights.len()), (9, 10));
        assert_eq!(
            weights.iter().map(|weight| weight.entries).sum::<u64>(),
            1_000_003
        );
        assert!(places.is_sorted());
        for (at, place) in places.iter().enumerate() {
            let number: usize = place[0].0.to_str().unwrap().parse().unwrap();
            let ideal = (at + 1) * 100_000;
            assert!(number.abs_diff(ideal) < 2_000, "{number} for {ideal}");
        }
    }

    #[test]
    fn a_heavy_directory_is_cut_inside_and_light_ones_are_not_kept() {
        let mut top = Pieces::default();
        let all = Weight {
            entries: 80_000,
            bytes: 0,
        };
        for number in 0..40_000 {
            top.add_directory(&name(number), files(1, 0), all, 4);
        }
        top.add_directory(c"0020000x", files(5000, 10 << 20), all, 4);
        assert!(top.pieces.len() < MOST_PIECES);
        let (places, weights) = top.cut(4);
        assert!(places
            .iter()
            .all(|place| place[0].0.as_c_str() == c"0020000x" && place.len() == 2));
        let costs: Vec<_> = weights.iter().map(|weight| weight.cost()).collect();
        let (least, most) = (costs.iter().min().unwrap(), costs.iter().max().unwrap());
        assert!(most - least < most / 4, "{costs:?}");
    }

    #[test]
    fn what_cannot_be_cut_makes_fewer_shards() {
        let mut top = files(2, 1);
        top.add(
            c"huge",
            Weight {
                entries: 1,
                bytes: 1 << 40,
            },
        );
        assert_eq!(top.cut(100).0.len(), 1);
        assert_eq!(Pieces::default().cut(8).0.len(), 0);
    }

    #[test]
    fn a_chain_of_directories_may_be_deep() {
        let mut chain = files(3, 10);
        for _ in 0..200_000 {
            let mut above = files(1, 10);
            above.add_directory(c"d", chain, Weight::default(), 4);
            chain = above;
        }
        assert_eq!(chain.cut(4).0.len(), 3);
    }
}

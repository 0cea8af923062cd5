//! From a descriptor to what this library knows of it: one load, and zero for nearly all.
//!
//! Sets are made once and used again, so a pointer to one stays valid without a count.

use crate::set::Set;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// Descriptors above are left alone.
const MAX_DESCRIPTORS: usize = 1 << 20;
/// Epoll sets with sockets on a ring at one time. Others stay as they are.
const MAX_SETS: usize = 1024;

/// An epoll set; the rest is its number.
const EPOLL: u32 = 1 << 31;
/// A descriptor of this library's own.
const OWN: u32 = 1 << 30;
/// A descriptor that is in a real epoll set, or that shares its socket with another one.
const PLAIN: u32 = 1 << 29;

/// A descriptor with an option that no ring does justice to.
const ODD: u32 = 1 << 28;

/// A descriptor that was opened after a fork; the rest is which one.
const YOUNG: u32 = 1 << 27;
const FORKS: u32 = YOUNG - 1;

static TABLE: [AtomicU32; MAX_DESCRIPTORS] = [const { AtomicU32::new(0) }; MAX_DESCRIPTORS];
static SETS: [AtomicPtr<Set>; MAX_SETS] = [const { AtomicPtr::new(std::ptr::null_mut()) }; MAX_SETS];

fn entry(fd: RawFd) -> Option<&'static AtomicU32> {
    TABLE.get(usize::try_from(fd).ok()?)
}

fn load(fd: RawFd) -> u32 {
    entry(fd).map_or(0, |entry| entry.load(Ordering::Acquire))
}

fn store(fd: RawFd, value: u32) {
    if let Some(entry) = entry(fd) {
        entry.store(value, Ordering::Release);
    }
}

fn numbered(number: u32) -> Option<&'static Set> {
    let set = SETS
        .get((number as usize).wrapping_sub(1))?
        .load(Ordering::Acquire);
    // SAFETY: a set that is in the list is never freed.
    unsafe { set.as_ref() }
}

/// The set whose socket this is.
#[inline]
pub(crate) fn socket(fd: RawFd) -> Option<&'static Set> {
    let value = load(fd);
    if value == 0 || value >= YOUNG {
        return None;
    }
    numbered(value)
}

/// Whether the table has room for the descriptor.
pub(crate) fn has_room(fd: RawFd) -> bool {
    entry(fd).is_some()
}

/// The set that this descriptor is.
#[inline]
pub(crate) fn epoll(fd: RawFd) -> Option<&'static Set> {
    let value = load(fd);
    if value & EPOLL == 0 {
        return None;
    }
    numbered(value & !EPOLL)
}

pub(crate) fn is_known(fd: RawFd) -> bool {
    load(fd) != 0
}

pub(crate) fn is_own(fd: RawFd) -> bool {
    load(fd) == OWN
}

pub(crate) fn is_plain(fd: RawFd) -> bool {
    matches!(load(fd), PLAIN | ODD)
}

pub(crate) fn is_odd(fd: RawFd) -> bool {
    load(fd) == ODD
}

/// Says that the descriptor is never to be put on a ring. What is on one already stays what it is.
pub(crate) fn set_odd(fd: RawFd) {
    if let Some(entry) = entry(fd) {
        let _ = entry.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |value| {
            (is_nothing(value) || value == PLAIN).then_some(ODD)
        });
    }
}

pub(crate) fn set_own(fd: RawFd) {
    store(fd, OWN);
}

/// Whether a value says nothing but when a descriptor was opened.
fn is_nothing(value: u32) -> bool {
    value == 0 || value & !FORKS == YOUNG
}

/// Says that the descriptor is not to be put on a ring. What is on one already stays what it is.
pub(crate) fn set_plain(fd: RawFd) {
    if let Some(entry) = entry(fd) {
        let _ = entry.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |value| {
            is_nothing(value).then_some(PLAIN)
        });
    }
}

/// Says after which fork a descriptor was opened.
pub(crate) fn set_young(fd: RawFd, fork: u32) {
    if let Some(entry) = entry(fd) {
        let young = YOUNG | fork & FORKS;
        let _ = entry.compare_exchange(0, young, Ordering::AcqRel, Ordering::Relaxed);
    }
}

pub(crate) fn is_young(fd: RawFd, fork: u32) -> bool {
    load(fd) == YOUNG | fork & FORKS
}

pub(crate) fn unset_plain(fd: RawFd) {
    if let Some(entry) = entry(fd) {
        let _ = entry.compare_exchange(PLAIN, 0, Ordering::AcqRel, Ordering::Relaxed);
    }
}

pub(crate) fn set_socket(fd: RawFd, number: u32) {
    store(fd, number);
}

/// Takes an unknown descriptor for a set that is about to be made. False: it is known.
pub(crate) fn claim_epoll(fd: RawFd) -> bool {
    entry(fd).is_some_and(|entry| {
        entry
            .compare_exchange(0, EPOLL, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    })
}

pub(crate) fn set_epoll(fd: RawFd, number: u32) {
    store(fd, EPOLL | number);
}

pub(crate) fn clear(fd: RawFd) {
    store(fd, 0);
}

/// All sets that have been made.
pub(crate) fn sets() -> impl Iterator<Item = &'static Set> {
    (1..=MAX_SETS as u32).map_while(numbered)
}

/// Puts a new set into the first free place of the list. None: the list is full.
pub(crate) fn add_set(make: impl Fn(u32) -> Set) -> Option<&'static Set> {
    for (at, place) in SETS.iter().enumerate() {
        if !place.load(Ordering::Acquire).is_null() {
            continue;
        }
        let set = Box::into_raw(Box::new(make(at as u32 + 1)));
        if place
            .compare_exchange(std::ptr::null_mut(), set, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
        {
            // SAFETY: it was just made and is never freed.
            return Some(unsafe { &*set });
        }
        // Another thread was quicker.
        // SAFETY: nobody else has seen it.
        drop(unsafe { Box::from_raw(set) });
    }
    None
}

/// Descriptors between `first` and `last` that have an entry.
pub(crate) fn known(first: u32, last: u32) -> Vec<RawFd> {
    let last = (last as usize).min(MAX_DESCRIPTORS - 1);
    // Not all pages of the table: what is open is what may have an entry.
    let open = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let mut known: Vec<RawFd> = open
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|fd| (first as usize..=last).contains(&(*fd as usize)) && load(*fd) != 0)
        .collect(); // allocates: four bytes a descriptor
    known.sort_unstable();
    known
}

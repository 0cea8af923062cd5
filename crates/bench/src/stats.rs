//! Medians, their spread, and whether two sets of rounds differ. This module knows only numbers.

use serde::{Deserialize, Serialize};

/// Median and range of some rounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Median.
    pub median: f64,
    /// Minimum.
    pub min: f64,
    /// Maximum.
    pub max: f64,
    /// Median distance from the median: one bad round does not move it.
    pub mad: f64,
}

impl Spread {
    /// Creates it; `None` without a value.
    pub fn of(values: &[f64]) -> Option<Spread> {
        let ordered = sorted(values);
        let median = middle(&ordered)?;
        let distances: Vec<f64> = ordered.iter().map(|v| (v - median).abs()).collect();
        Some(Spread {
            median,
            min: ordered[0],
            max: ordered[ordered.len() - 1],
            mad: middle(&sorted(&distances))?,
        })
    }

    /// Returns the range as a share of the median.
    pub fn relative(&self) -> f64 {
        if self.median == 0.0 {
            0.0
        } else {
            (self.max - self.min) / self.median.abs()
        }
    }
}

/// Statistics that other tools report. They are not for verdicts, because one bad round moves all of them.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Sample {
    /// Minimum.
    pub min: f64,
    /// Maximum.
    pub max: f64,
    /// Mean.
    pub mean: f64,
    /// Standard deviation of the population, estimated from the sample.
    pub deviation: f64,
}

impl Sample {
    /// Creates it; zeroes without a value.
    pub fn of(values: impl Iterator<Item = f64>) -> Sample {
        let values: Vec<f64> = values.collect();
        let count = values.len() as f64;
        if values.is_empty() {
            return Sample::default();
        }
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Sample {
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            mean,
            deviation: (squares / (count - 1.0).max(1.0)).sqrt(),
        }
    }
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut ordered = values.to_vec();
    ordered.sort_by(f64::total_cmp);
    ordered
}

fn middle(ordered: &[f64]) -> Option<f64> {
    let half = ordered.len() / 2;
    match ordered.len() {
        0 => None,
        n if n % 2 == 1 => Some(ordered[half]),
        _ => Some((ordered[half - 1] + ordered[half]) / 2.0),
    }
}

/// Significance level: a difference with a smaller p counts.
pub const SIGNIFICANT: f64 = 0.05;
/// Lower bound on rounds on each side: with fewer, no order of them is that unlikely.
pub const ROUNDS_NEEDED: usize = 4;
/// Upper bound on values for the exact test: counting all splits takes time and exact numbers, and beyond
/// this the normal approximation is good.
const EXACT_UP_TO: usize = 40;

/// Returns the two-sided p of the Mann-Whitney test: the probability that values from one source fall at
/// least this far apart. It is exact (also with ties, over all ways to split the values) up to 40 values, and
/// a normal approximation beyond. `None` if a side is empty.
pub fn mann_whitney(a: &[f64], b: &[f64]) -> Option<f64> {
    if a.is_empty() || b.is_empty() {
        return None;
    }
    // Twice the rank, so that the mean rank of a tie is a whole number.
    let ranks = doubled_ranks(a, b);
    let sum: usize = ranks[..a.len()].iter().sum();
    let expected = a.len() * (a.len() + b.len() + 1);
    let distance = sum.abs_diff(expected);
    Some(if ranks.len() <= EXACT_UP_TO {
        exact(&ranks, a.len(), expected, distance)
    } else {
        approximate(&ranks, a.len(), distance)
    })
}

fn doubled_ranks(a: &[f64], b: &[f64]) -> Vec<usize> {
    let all: Vec<f64> = a.iter().chain(b).copied().collect();
    let rank = |value: &f64| {
        let below = all.iter().filter(|other| *other < value).count();
        let same = all.iter().filter(|other| *other == value).count();
        2 * below + same + 1
    };
    all.iter().map(rank).collect()
}

/// Returns the share of all ways to choose `size` of the ranks whose sum is at least `distance` from the
/// expected one.
fn exact(ranks: &[usize], size: usize, expected: usize, distance: usize) -> f64 {
    let most: usize = ranks.iter().sum();
    // ways[k][s]: subsets of k ranks with the sum s.
    let mut ways = vec![vec![0f64; most + 1]; size + 1];
    ways[0][0] = 1.0;
    for &rank in ranks {
        for k in (1..=size).rev() {
            for s in (rank..=most).rev() {
                ways[k][s] += ways[k - 1][s - rank];
            }
        }
    }
    let all: f64 = ways[size].iter().sum();
    let far = |s: usize| s.abs_diff(expected) >= distance;
    let extreme: f64 = (0..=most).filter(|s| far(*s)).map(|s| ways[size][s]).sum();
    extreme / all
}

fn approximate(ranks: &[usize], size: usize, distance: usize) -> f64 {
    let (n, a) = (ranks.len() as f64, size as f64);
    let mean = n + 1.0;
    // The variance of a sum drawn without replacement, which has the ties in it already.
    let variance = ranks.iter().map(|r| (*r as f64 - mean).powi(2)).sum::<f64>() / n;
    let deviation = (a * (n - a) / (n - 1.0) * variance).sqrt();
    if deviation == 0.0 {
        return 1.0;
    }
    // One step of a doubled rank sum is 2 without ties: half of it is the correction for continuity.
    let z = (distance as f64 - 1.0).max(0.0) / deviation;
    complementary_error(z / std::f64::consts::SQRT_2)
}

/// Returns erfc, to 1.2e-7 (numerical approximation by a rational function of 1 / (1 + x/2), Chebyshev
/// fitted).
fn complementary_error(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.5 * x);
    let polynomial = [
        0.17087277,
        -0.82215223,
        1.48851587,
        -1.13520398,
        0.27886807,
        -0.18628806,
        0.09678418,
        0.37409196,
        1.00002368,
        -1.26551223,
    ];
    let sum = polynomial.iter().fold(0.0, |sum, c| sum * t + c);
    t * (sum - x * x).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread() {
        let spread = Spread::of(&[5.0, 1.0, 2.0, 100.0, 3.0]).unwrap();
        assert_eq!(
            (spread.median, spread.min, spread.max, spread.mad),
            (3.0, 1.0, 100.0, 2.0)
        );
        assert_eq!(Spread::of(&[1.0, 2.0]).unwrap().median, 1.5);
        assert!(Spread::of(&[]).is_none());
    }

    #[test]
    fn sample() {
        let sample = Sample::of([2.0, 4.0, 6.0].into_iter());
        assert_eq!(
            (sample.min, sample.max, sample.mean, sample.deviation),
            (2.0, 6.0, 4.0, 2.0)
        );
        assert_eq!(Sample::of([3.0].into_iter()).deviation, 0.0);
        assert_eq!(Sample::of([].into_iter()), Sample::default());
    }

    /// Checks known values: with no overlap, 2 of the ways to split are as extreme.
    #[test]
    fn without_overlap() {
        let p = |n: usize| {
            let a: Vec<f64> = (0..n).map(|i| i as f64).collect();
            let b: Vec<f64> = (0..n).map(|i| 100.0 + i as f64).collect();
            mann_whitney(&a, &b).unwrap()
        };
        for (n, ways) in [(3, 20.0), (4, 70.0), (5, 252.0)] {
            assert!((p(n) - 2.0 / ways).abs() < 1e-12, "{n}");
        }
        assert!(p(ROUNDS_NEEDED) < SIGNIFICANT && p(ROUNDS_NEEDED - 1) > SIGNIFICANT);
        assert!(p(25) < 1e-6, "approximated");
    }

    #[test]
    fn the_same() {
        assert_eq!(mann_whitney(&[1.0; 5], &[1.0; 5]), Some(1.0));
        assert_eq!(mann_whitney(&[1.0; 50], &[1.0; 50]), Some(1.0));
        assert!(mann_whitney(&[1.0, 4.0, 5.0, 8.0], &[2.0, 3.0, 6.0, 7.0]).unwrap() > 0.9);
        assert_eq!(mann_whitney(&[], &[1.0]), None);
    }

    /// Checks that the exact test and the approximation agree where both are good.
    #[test]
    fn approximation() {
        let a: Vec<f64> = (0..20).map(|i| f64::from(i * 3)).collect();
        let b: Vec<f64> = (0..20).map(|i| f64::from(i * 3) + 13.5).collect();
        let ranks = doubled_ranks(&a, &b);
        let (sum, expected) = (ranks[..20].iter().sum::<usize>(), 20 * 41);
        let distance = sum.abs_diff(expected);
        let (exact, near) = (
            exact(&ranks, 20, expected, distance),
            approximate(&ranks, 20, distance),
        );
        assert!((exact - near).abs() < 0.005, "{exact} {near}");
    }
}

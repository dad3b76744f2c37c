//! What the source (S2) found.

use super::{Figure, Published, Query};

/// Sections 2.2 and 2.4 of the source.
pub(super) fn published(query: Query, figure: Figure) -> Published {
    let (fresh, aged, ratio) = match (query, figure) {
        (Query::A, Figure::Time) => (695.0, 1_281.0, 1_281.0 / 695.0),
        (Query::A, Figure::ReadIos) => (704e3, 1.34e6, 1.91),
        (Query::A, Figure::ReadBytes) => (92.2e9, 175e9, 1.90),
        (Query::A, Figure::SeekDistance) => (7.3e9, 174e9, 23.7),
        (Query::B, Figure::Time) => (1_805.0, 2_419.0, 2_419.0 / 1_805.0),
        (Query::B, Figure::ReadIos) => (432e3, 433e3, 1.00),
        (Query::B, Figure::ReadBytes) => (3.71e9, 3.75e9, 1.01),
        (Query::B, Figure::SeekDistance) => (2.02e12, 195e12, 96.8),
    };
    Published { fresh, aged, ratio }
}

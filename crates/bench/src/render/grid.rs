//! A table for cells that differ in engine, depth and block size only: the number that counts, a row for each
//! engine.

use crate::job::Cell;
use crate::report::{CellReport, Report};
use crate::stats::Spread;
use crate::subject::Subject;
use crate::units;
use crate::verdict;

/// A table.
pub(super) struct Grid {
    pub title: String,
    pub head: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

/// A column: depth and block sizes.
type Column = (u32, (u64, u64));

/// Returns one table for each kind of work that was measured with more than one block size.
pub(super) fn grids(report: &Report) -> Vec<Grid> {
    let mut groups: Vec<(Cell, Vec<(&Cell, &CellReport)>)> = Vec::new();
    for cell in &report.cells {
        let Some(io) = cell.cell.io() else { continue };
        // What two cells of a grid have in common.
        let common = Cell {
            engine: report.cells[0].cell.io().map_or(io.engine, |first| first.engine),
            bs: 0,
            bs_of_writes: None,
            iodepth: 0,
            ..io.clone()
        };
        match groups.iter_mut().find(|group| group.0 == common) {
            Some(group) => group.1.push((io, cell)),
            None => groups.push((common, vec![(io, cell)])),
        }
    }
    groups.retain(|group| group.1.iter().any(|one| sizes(one.0) != sizes(group.1[0].0)));
    groups.iter().map(|group| grid(&group.1)).collect()
}

/// Returns the sizes of a read and of a write in bytes.
fn sizes(cell: &Cell) -> (u64, u64) {
    (cell.bs, cell.write_bytes())
}

fn formatted((reads, writes): (u64, u64)) -> String {
    match reads == writes {
        true => units::bytes(reads),
        false => format!("{},{}", units::bytes(reads), units::bytes(writes)),
    }
}

fn grid(cells: &[(&Cell, &CellReport)]) -> Grid {
    let mut columns: Vec<Column> = Vec::new();
    let mut engines = Vec::new();
    let any_depth = |cell: &Cell| Subject::Io(cell.clone()).has_no_depth();
    let depths = cells.iter().any(|one| !any_depth(one.0));
    for (cell, _) in cells {
        let column = (cell.iodepth, sizes(cell));
        // `sync` has no depth: it takes part in the columns of the others.
        let takes_part_in_others = depths && any_depth(cell);
        if !takes_part_in_others && !columns.contains(&column) {
            columns.push(column);
        }
        if !engines.contains(&cell.engine) {
            engines.push(cell.engine);
        }
    }
    let measure = cells[0].0.measure;
    let value = |engine, (depth, bs): Column| {
        let found = cells.iter().find(|(cell, _)| {
            cell.engine == engine && sizes(cell) == bs && (cell.iodepth == depth || any_depth(cell))
        });
        let spread = found.and_then(|(_, report)| Spread::of(&report.values(measure)));
        spread.map_or("-".into(), |spread| verdict::formatted(spread.median, measure))
    };
    let head = columns
        .iter()
        .map(|(depth, bs)| format!("{} x {depth}", formatted(*bs)));
    let first = cells[0].0;
    let title = Subject::Io(first.clone()).title();
    let block = format!("{} {} of", first.rw, first.block_sizes());
    Grid {
        title: format!(
            "{}: {measure} by block size and depth",
            title.replacen(&block, &format!("{} of", first.rw), 1)
        ),
        head: std::iter::once("engine".to_owned()).chain(head).collect(),
        rows: engines
            .iter()
            .map(|engine| {
                let values = columns.iter().map(|column| value(*engine, *column));
                std::iter::once(engine.to_string()).chain(values).collect()
            })
            .collect(),
    }
}

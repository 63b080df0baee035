//! The floors of this run, by which other lines are judged.

use crate::{
    Trouble,
    figure::{Figure, Goal},
    floor::Floors,
};

pub const LINE: &str = "floors";

pub async fn measure() -> Result<Vec<Figure>, Trouble> {
    let floors = Floors::measure()?;
    let figure = |name: &str, seconds: f64| Figure::new(LINE, name, seconds * 1e6, "µs", Goal::None);
    Ok(vec![
        figure("a process started and reaped", floors.spawn),
        figure("a page written and flushed", floors.fsync),
        figure("a loopback round trip", floors.round_trip),
        figure("the command line started", floors.start),
        figure("a MiB copied", floors.copy),
    ])
}
